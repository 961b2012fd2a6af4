"""What the verifier says of targets that are no classes."""


def test_a_certificate_with_another_target_does_not_verify(tmp_path):
    from sfumato.verify._facts import target_faults
    from sfumato.verify._methods import rules_of

    def faults(rules=None, **facts):
        return [*target_faults({"method": "m", "public_facts": {"num_classes": 1, **facts}}, rules or rules_of("gap"))]

    number = {"target": "number", "target_range": [0, 1]}
    assert not faults()
    assert not faults(**number)
    assert not faults(target="multilabel", num_classes=4)
    assert "learns no target of kind number" in faults(rules_of("label-messages"), **number)[0]
    assert "target_range" in faults(target="number")[0]
    assert "target_range" in faults(target_range=[0, 1])[0]
    assert "smaller one first" in faults(target="number", target_range=[1, 1])[0]
    assert "expected 1" in faults(**number | {"num_classes": 2})[0]
    assert "untrained_classes" in faults(target="multilabel", untrained_classes=0)[0]
