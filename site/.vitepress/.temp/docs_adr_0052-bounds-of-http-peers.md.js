import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"ADR 52: Bound every HTTP listener and every HTTP client in one way","description":"","frontmatter":{},"headers":[],"relativePath":"docs/adr/0052-bounds-of-http-peers.md","filePath":"docs/adr/0052-bounds-of-http-peers.md"}');
const _sfc_main = { name: "docs/adr/0052-bounds-of-http-peers.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="adr-52-bound-every-http-listener-and-every-http-client-in-one-way" tabindex="-1">ADR 52: Bound every HTTP listener and every HTTP client in one way <a class="header-anchor" href="#adr-52-bound-every-http-listener-and-every-http-client-in-one-way" aria-label="Permalink to &quot;ADR 52: Bound every HTTP listener and every HTTP client in one way&quot;">​</a></h1><ul><li>Status: accepted</li><li>Date: 2026-11-24</li><li>Supersedes: -</li></ul><h2 id="context" tabindex="-1">Context <a class="header-anchor" href="#context" aria-label="Permalink to &quot;Context&quot;">​</a></h2><p>The API server bounded its connections; the kubelet, review servers, the metrics API and health checks, which share its file descriptors, did not. Nine clients of <code>node:http</code> had deadlines, but a server that answered 101 held each of them for ever: Node.js then destroys the connection and reports neither a response nor an error, and an abort has no effect.</p><h2 id="options" tabindex="-1">Options <a class="header-anchor" href="#options" aria-label="Permalink to &quot;Options&quot;">​</a></h2><table tabindex="0"><thead><tr><th>option</th><th>result</th></tr></thead><tbody><tr><td>The connection table of the API server for all listeners</td><td>its classes need the authenticators of the API server; a table per listener costs memory</td></tr><tr><td>A wrapper around <code>node:http</code> for all clients</td><td>eleven clients differ in agents, retries and error texts</td></tr><tr><td>Two small functions that listeners and clients call, and a test that finds callers without them</td><td>chosen</td></tr></tbody></table><h2 id="decision" tabindex="-1">Decision <a class="header-anchor" href="#decision" aria-label="Permalink to &quot;Decision&quot;">​</a></h2><ul><li>A listener other than the API server&#39;s passes <code>listenerDeadlines</code> to <code>createServer</code> and calls <code>boundConnections</code> (<code>@oarlock/primitives/net/bounded-listener</code>).</li><li>A client of <code>node:http</code> that expects no upgrade calls <code>rejectUpgrade</code> (<code>@oarlock/primitives/net/keep-alive-connection</code>). A test reads the sources and fails for a client without it.</li><li>The bounds are constants: a connection costs the same in every cluster.</li></ul><h2 id="consequences" tabindex="-1">Consequences <a class="header-anchor" href="#consequences" aria-label="Permalink to &quot;Consequences&quot;">​</a></h2><ul><li>A kubelet serves at most 1024 connections. Connections of an API server in the same process do not count.</li><li>A client that opens 257 connections before its first request loses the oldest one.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("docs/adr/0052-bounds-of-http-peers.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const _0052BoundsOfHttpPeers = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  _0052BoundsOfHttpPeers as default
};
