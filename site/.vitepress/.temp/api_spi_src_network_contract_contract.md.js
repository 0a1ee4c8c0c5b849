import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"spi/src/network/contract/contract","description":"","frontmatter":{},"headers":[],"relativePath":"api/spi/src/network/contract/contract.md","filePath":"api/spi/src/network/contract/contract.md"}');
const _sfc_main = { name: "api/spi/src/network/contract/contract.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="spisrcnetworkcontractcontract" tabindex="-1">spi/src/network/contract/contract <a class="header-anchor" href="#spisrcnetworkcontractcontract" aria-label="Permalink to &quot;spi/src/network/contract/contract&quot;">​</a></h1><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="networkcontract" tabindex="-1">networkContract() <a class="header-anchor" href="#networkcontract" aria-label="Permalink to &quot;networkContract()&quot;">​</a></h3><blockquote><p><strong>networkContract</strong>(<code>name</code>, <code>open</code>, <code>__namedParameters?</code>): <code>void</code></p></blockquote><p>Declares the tests that every network driver must pass. Call it once per driver, and once per decorator of a driver. Each test opens its own fixture.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="name" tabindex="-1">name <a class="header-anchor" href="#name" aria-label="Permalink to &quot;name&quot;">​</a></h5><p><code>string</code></p><h5 id="open" tabindex="-1">open <a class="header-anchor" href="#open" aria-label="Permalink to &quot;open&quot;">​</a></h5><p>() =&gt; <code>Promise</code>&lt;<a href="./harness.html#networkfixture"><code>NetworkFixture</code></a>&gt;</p><h5 id="__namedparameters" tabindex="-1">__namedParameters? <a class="header-anchor" href="#__namedparameters" aria-label="Permalink to &quot;\\_\\_namedParameters?&quot;">​</a></h5><h6 id="unavailable" tabindex="-1">unavailable? <a class="header-anchor" href="#unavailable" aria-label="Permalink to &quot;unavailable?&quot;">​</a></h6><p><code>string</code></p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>void</code></p><h2 id="references" tabindex="-1">References <a class="header-anchor" href="#references" aria-label="Permalink to &quot;References&quot;">​</a></h2><h3 id="networkcapability" tabindex="-1">NetworkCapability <a class="header-anchor" href="#networkcapability" aria-label="Permalink to &quot;NetworkCapability&quot;">​</a></h3><p>Re-exports <a href="./harness.html#networkcapability">NetworkCapability</a></p><hr><h3 id="networkfixture" tabindex="-1">NetworkFixture <a class="header-anchor" href="#networkfixture" aria-label="Permalink to &quot;NetworkFixture&quot;">​</a></h3><p>Re-exports <a href="./harness.html#networkfixture">NetworkFixture</a></p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/spi/src/network/contract/contract.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const contract = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  contract as default
};
