import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"testing/src/network/network-namespace","description":"","frontmatter":{},"headers":[],"relativePath":"api/testing/src/network/network-namespace.md","filePath":"api/testing/src/network/network-namespace.md"}');
const _sfc_main = { name: "api/testing/src/network/network-namespace.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="testingsrcnetworknetwork-namespace" tabindex="-1">testing/src/network/network-namespace <a class="header-anchor" href="#testingsrcnetworknetwork-namespace" aria-label="Permalink to &quot;testing/src/network/network-namespace&quot;">​</a></h1><h2 id="variables" tabindex="-1">Variables <a class="header-anchor" href="#variables" aria-label="Permalink to &quot;Variables&quot;">​</a></h2><h3 id="isinnetworknamespace" tabindex="-1">isInNetworkNamespace <a class="header-anchor" href="#isinnetworknamespace" aria-label="Permalink to &quot;isInNetworkNamespace&quot;">​</a></h3><blockquote><p><code>const</code> <strong>isInNetworkNamespace</strong>: <code>boolean</code></p></blockquote><p>True if this process runs in a network namespace of the test.</p><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="innetworknamespace" tabindex="-1">inNetworkNamespace() <a class="header-anchor" href="#innetworknamespace" aria-label="Permalink to &quot;inNetworkNamespace()&quot;">​</a></h3><blockquote><p><strong>inNetworkNamespace</strong>(<code>file</code>): <code>void</code></p></blockquote><p>Runs the test file again in a new network namespace and reports each of its tests as a test of this file.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="file" tabindex="-1">file <a class="header-anchor" href="#file" aria-label="Permalink to &quot;file&quot;">​</a></h5><p><code>string</code></p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>void</code></p><hr><h3 id="ip" tabindex="-1">ip() <a class="header-anchor" href="#ip" aria-label="Permalink to &quot;ip()&quot;">​</a></h3><blockquote><p><strong>ip</strong>(...<code>args</code>): <code>void</code></p></blockquote><h4 id="parameters-1" tabindex="-1">Parameters <a class="header-anchor" href="#parameters-1" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="args" tabindex="-1">args <a class="header-anchor" href="#args" aria-label="Permalink to &quot;args&quot;">​</a></h5><p>...<code>string</code>[]</p><h4 id="returns-1" tabindex="-1">Returns <a class="header-anchor" href="#returns-1" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>void</code></p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/testing/src/network/network-namespace.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const networkNamespace = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  networkNamespace as default
};
