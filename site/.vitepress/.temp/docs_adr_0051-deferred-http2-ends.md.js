import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"ADR 51: End HTTP/2 streams and sessions in a turn of their own","description":"","frontmatter":{},"headers":[],"relativePath":"docs/adr/0051-deferred-http2-ends.md","filePath":"docs/adr/0051-deferred-http2-ends.md"}');
const _sfc_main = { name: "docs/adr/0051-deferred-http2-ends.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="adr-51-end-http2-streams-and-sessions-in-a-turn-of-their-own" tabindex="-1">ADR 51: End HTTP/2 streams and sessions in a turn of their own <a class="header-anchor" href="#adr-51-end-http2-streams-and-sessions-in-a-turn-of-their-own" aria-label="Permalink to &quot;ADR 51: End HTTP/2 streams and sessions in a turn of their own&quot;">​</a></h1><ul><li>Status: accepted</li><li>Date: 2026-11-24</li><li>Supersedes: -</li></ul><h2 id="context" tabindex="-1">Context <a class="header-anchor" href="#context" aria-label="Permalink to &quot;Context&quot;">​</a></h2><p>Node 20 runs the listeners and promises that follow the reset of a stream below nghttp2&#39;s receive function. If one of them destroys another stream that is open for writing, closes it with a code other than <code>CANCEL</code>, or destroys the session, Node sends pending data without end: the process hangs at full processor time and its memory grows. A lost leader of etcd hung API servers this way, and a client that resets watches until the control frame burst is exceeded did so on purpose.</p><h2 id="options" tabindex="-1">Options <a class="header-anchor" href="#options" aria-label="Permalink to &quot;Options&quot;">​</a></h2><table tabindex="0"><thead><tr><th>option</th><th>result</th></tr></thead><tbody><tr><td>Detect whether the caller is below the receive function</td><td>Node does not expose it</td></tr><tr><td>Close with <code>CANCEL</code> everywhere</td><td>a response would look complete to the client, and sessions cannot be closed this way</td></tr><tr><td>End in the next turn of the event loop</td><td>chosen</td></tr></tbody></table><h2 id="decision" tabindex="-1">Decision <a class="header-anchor" href="#decision" aria-label="Permalink to &quot;Decision&quot;">​</a></h2><ul><li><code>destroyHttp2</code> and <code>closeHttp2Stream</code> of <code>packages/primitives/src/net/http2-end.ts</code> are the only ways to end a stream or session, except <code>close(NGHTTP2_CANCEL)</code>, which Node defers itself, and graceful <code>session.close()</code>.</li><li>A caller that relies on the effect keeps a flag of its own: an aborted response accepts no further data, and a destroyed connection serves no further requests.</li></ul><h2 id="consequences" tabindex="-1">Consequences <a class="header-anchor" href="#consequences" aria-label="Permalink to &quot;Consequences&quot;">​</a></h2><ul><li>Bytes that were received before the end are still parsed; their requests are ignored.</li><li>The tests send the frames that hang Node 20. A test of a direct <code>destroy</code> would hang instead of failing.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("docs/adr/0051-deferred-http2-ends.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const _0051DeferredHttp2Ends = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  _0051DeferredHttp2Ends as default
};
