// Browsers start no worker from a file on disk: run its script in a hidden frame instead, so that search works there too.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.window = new Promise((resolve) => {
        frame.onload = () => {
          const inner = frame.contentWindow;
          if (inner.started) return;
          inner.started = true;
          inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inner.document.createElement("script");
          script.src = url;
          script.onload = () => resolve(inner);
          inner.document.body.append(script);
        };
      });
      frame.srcdoc = "<body></body>";
      document.documentElement.append(frame);
    }

    postMessage(data) {
      this.window.then((inner) => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }
  };
}
