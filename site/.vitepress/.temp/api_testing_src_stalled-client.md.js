import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"testing/src/stalled-client","description":"","frontmatter":{},"headers":[],"relativePath":"api/testing/src/stalled-client.md","filePath":"api/testing/src/stalled-client.md"}');
const _sfc_main = { name: "api/testing/src/stalled-client.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="testingsrcstalled-client" tabindex="-1">testing/src/stalled-client <a class="header-anchor" href="#testingsrcstalled-client" aria-label="Permalink to &quot;testing/src/stalled-client&quot;">​</a></h1><h2 id="interfaces" tabindex="-1">Interfaces <a class="header-anchor" href="#interfaces" aria-label="Permalink to &quot;Interfaces&quot;">​</a></h2><h3 id="stalledclient" tabindex="-1">StalledClient <a class="header-anchor" href="#stalledclient" aria-label="Permalink to &quot;StalledClient&quot;">​</a></h3><h4 id="properties" tabindex="-1">Properties <a class="header-anchor" href="#properties" aria-label="Permalink to &quot;Properties&quot;">​</a></h4><h5 id="client" tabindex="-1">client <a class="header-anchor" href="#client" aria-label="Permalink to &quot;client&quot;">​</a></h5><blockquote><p><code>readonly</code> <strong>client</strong>: <a href="./../../spi/src/composition/client.html#client"><code>Client</code></a></p></blockquote><h4 id="methods" tabindex="-1">Methods <a class="header-anchor" href="#methods" aria-label="Permalink to &quot;Methods&quot;">​</a></h4><h5 id="stallwatches" tabindex="-1">stallWatches() <a class="header-anchor" href="#stallwatches" aria-label="Permalink to &quot;stallWatches()&quot;">​</a></h5><blockquote><p><strong>stallWatches</strong>(): <code>void</code></p></blockquote><p>Stops the delivery of events on all open watches, as a server that lost its connection to the storage does. Watches that are opened later are not affected.</p><h6 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h6><p><code>void</code></p><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="stalledclient-1" tabindex="-1">stalledClient() <a class="header-anchor" href="#stalledclient-1" aria-label="Permalink to &quot;stalledClient()&quot;">​</a></h3><blockquote><p><strong>stalledClient</strong>(<code>inner</code>): <a href="#stalledclient"><code>StalledClient</code></a></p></blockquote><p>Wraps a client whose watches can be stalled.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="inner" tabindex="-1">inner <a class="header-anchor" href="#inner" aria-label="Permalink to &quot;inner&quot;">​</a></h5><p><a href="./../../spi/src/composition/client.html#client"><code>Client</code></a></p><h4 id="returns-1" tabindex="-1">Returns <a class="header-anchor" href="#returns-1" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><a href="#stalledclient"><code>StalledClient</code></a></p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/testing/src/stalled-client.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const stalledClient = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  stalledClient as default
};
