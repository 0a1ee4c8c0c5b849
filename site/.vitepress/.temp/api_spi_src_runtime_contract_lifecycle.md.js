import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"spi/src/runtime/contract/lifecycle","description":"","frontmatter":{},"headers":[],"relativePath":"api/spi/src/runtime/contract/lifecycle.md","filePath":"api/spi/src/runtime/contract/lifecycle.md"}');
const _sfc_main = { name: "api/spi/src/runtime/contract/lifecycle.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="spisrcruntimecontractlifecycle" tabindex="-1">spi/src/runtime/contract/lifecycle <a class="header-anchor" href="#spisrcruntimecontractlifecycle" aria-label="Permalink to &quot;spi/src/runtime/contract/lifecycle&quot;">​</a></h1><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="lifecyclecontract" tabindex="-1">lifecycleContract() <a class="header-anchor" href="#lifecyclecontract" aria-label="Permalink to &quot;lifecycleContract()&quot;">​</a></h3><blockquote><p><strong>lifecycleContract</strong>(<code>__namedParameters</code>): <code>void</code></p></blockquote><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="__namedparameters" tabindex="-1">__namedParameters <a class="header-anchor" href="#__namedparameters" aria-label="Permalink to &quot;\\_\\_namedParameters&quot;">​</a></h5><p><a href="./harness.html#suite"><code>Suite</code></a></p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>void</code></p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/spi/src/runtime/contract/lifecycle.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const lifecycle = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  lifecycle as default
};
