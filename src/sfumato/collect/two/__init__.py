"""Two servers that trust nobody: devices split their class between them, and they open noisy counts of public cells alone.

Model, proof and what it costs: decision note 0048. In this order: an :class:`~sfumato.collect.two._agreement.Agreement` that both
operators sign, :func:`~sfumato.collect.two._device.split` on every device, a
:class:`~sfumato.collect.two._server.Server` on either side, and :func:`~sfumato.collect.two._opening.join` for anyone.
"""
