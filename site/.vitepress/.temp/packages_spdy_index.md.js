import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"@oarlock/spdy","description":"","frontmatter":{},"headers":[],"relativePath":"packages/spdy/index.md","filePath":"packages/spdy/README.md"}');
const _sfc_main = { name: "packages/spdy/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="oarlockspdy" tabindex="-1">@oarlock/spdy <a class="header-anchor" href="#oarlockspdy" aria-label="Permalink to &quot;@oarlock/spdy&quot;">​</a></h1><p>SPDY/3.1 over a socket, client and server side, for the streams of exec, attach and port-forward: kubelets serve it to clients and use it toward CRI runtimes. Imports no other package.</p><table tabindex="0"><thead><tr><th>subpath</th><th>content</th></tr></thead><tbody><tr><td><code>connection</code></td><td><code>SpdyConnection</code>: parses and writes frames, opens streams, and passes on the streams that the peer opens</td></tr><tr><td><code>stream</code></td><td><code>SpdyStream</code>: a Duplex whose halves close independently, with headers, a reply, and how the peer&#39;s half ended</td></tr><tr><td><code>dial</code></td><td><code>dialSpdy</code>: upgrades an HTTP/1.1 POST to a connection</td></tr><tr><td><code>frames</code></td><td>encoding of frames; header blocks and their dictionary are internal</td></tr></tbody></table><p>Go&#39;s implementation (kubectl, kubelets, containerd) never sends WINDOW_UPDATE, so flow control is off by default; then only TCP slows down a sender.</p><p>A write completes when little is buffered for the socket, and the writes of one turn of the event loop are sent in one piece; beyond 256 KiB a writer waits until the buffer is empty.</p><p>Tests: transcripts and random frames, and connections over real sockets: half closes, resets, lost connections, slow readers.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/spdy/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
