import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"spi/src/storage/contract/races","description":"","frontmatter":{},"headers":[],"relativePath":"api/spi/src/storage/contract/races.md","filePath":"api/spi/src/storage/contract/races.md"}');
const _sfc_main = { name: "api/spi/src/storage/contract/races.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="spisrcstoragecontractraces" tabindex="-1">spi/src/storage/contract/races <a class="header-anchor" href="#spisrcstoragecontractraces" aria-label="Permalink to &quot;spi/src/storage/contract/races&quot;">​</a></h1><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="racecontract" tabindex="-1">raceContract() <a class="header-anchor" href="#racecontract" aria-label="Permalink to &quot;raceContract()&quot;">​</a></h3><blockquote><p><strong>raceContract</strong>(<code>__namedParameters</code>): <code>void</code></p></blockquote><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="__namedparameters" tabindex="-1">__namedParameters <a class="header-anchor" href="#__namedparameters" aria-label="Permalink to &quot;\\_\\_namedParameters&quot;">​</a></h5><p><a href="./harness.html#suite"><code>Suite</code></a></p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>void</code></p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/spi/src/storage/contract/races.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const races = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  races as default
};
