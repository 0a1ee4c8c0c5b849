import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"testing/src/network/source-address-contract","description":"","frontmatter":{},"headers":[],"relativePath":"api/testing/src/network/source-address-contract.md","filePath":"api/testing/src/network/source-address-contract.md"}');
const _sfc_main = { name: "api/testing/src/network/source-address-contract.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="testingsrcnetworksource-address-contract" tabindex="-1">testing/src/network/source-address-contract <a class="header-anchor" href="#testingsrcnetworksource-address-contract" aria-label="Permalink to &quot;testing/src/network/source-address-contract&quot;">​</a></h1><h2 id="type-aliases" tabindex="-1">Type Aliases <a class="header-anchor" href="#type-aliases" aria-label="Permalink to &quot;Type Aliases&quot;">​</a></h2><h3 id="makeproxy" tabindex="-1">MakeProxy <a class="header-anchor" href="#makeproxy" aria-label="Permalink to &quot;MakeProxy&quot;">​</a></h3><blockquote><p><strong>MakeProxy</strong> = (<code>options</code>) =&gt; <code>Promise</code>&lt;<code>KernelProxy</code>&gt;</p></blockquote><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="options" tabindex="-1">options <a class="header-anchor" href="#options" aria-label="Permalink to &quot;options&quot;">​</a></h5><h6 id="masqueradeall" tabindex="-1">masqueradeAll <a class="header-anchor" href="#masqueradeall" aria-label="Permalink to &quot;masqueradeAll&quot;">​</a></h6><p><code>boolean</code></p><h6 id="podcidrs" tabindex="-1">podCIDRs <a class="header-anchor" href="#podcidrs" aria-label="Permalink to &quot;podCIDRs&quot;">​</a></h6><p>readonly <code>string</code>[]</p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>Promise</code>&lt;<code>KernelProxy</code>&gt;</p><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="sourceaddresscontract" tabindex="-1">sourceAddressContract() <a class="header-anchor" href="#sourceaddresscontract" aria-label="Permalink to &quot;sourceAddressContract()&quot;">​</a></h3><blockquote><p><strong>sourceAddressContract</strong>(<code>make</code>): <code>void</code></p></blockquote><p>Tests the source address that endpoints see for clients in pods, outside of the cluster and on the node. Runs in a network namespace of the test.</p><h4 id="parameters-1" tabindex="-1">Parameters <a class="header-anchor" href="#parameters-1" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="make" tabindex="-1">make <a class="header-anchor" href="#make" aria-label="Permalink to &quot;make&quot;">​</a></h5><p><a href="#makeproxy"><code>MakeProxy</code></a></p><h4 id="returns-1" tabindex="-1">Returns <a class="header-anchor" href="#returns-1" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>void</code></p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/testing/src/network/source-address-contract.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const sourceAddressContract = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  sourceAddressContract as default
};
