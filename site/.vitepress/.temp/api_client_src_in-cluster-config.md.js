import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"client/src/in-cluster-config","description":"","frontmatter":{},"headers":[],"relativePath":"api/client/src/in-cluster-config.md","filePath":"api/client/src/in-cluster-config.md"}');
const _sfc_main = { name: "api/client/src/in-cluster-config.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="clientsrcin-cluster-config" tabindex="-1">client/src/in-cluster-config <a class="header-anchor" href="#clientsrcin-cluster-config" aria-label="Permalink to &quot;client/src/in-cluster-config&quot;">​</a></h1><h2 id="interfaces" tabindex="-1">Interfaces <a class="header-anchor" href="#interfaces" aria-label="Permalink to &quot;Interfaces&quot;">​</a></h2><h3 id="inclusterconfig" tabindex="-1">InClusterConfig <a class="header-anchor" href="#inclusterconfig" aria-label="Permalink to &quot;InClusterConfig&quot;">​</a></h3><h4 id="properties" tabindex="-1">Properties <a class="header-anchor" href="#properties" aria-label="Permalink to &quot;Properties&quot;">​</a></h4><h5 id="namespace" tabindex="-1">namespace <a class="header-anchor" href="#namespace" aria-label="Permalink to &quot;namespace&quot;">​</a></h5><blockquote><p><code>readonly</code> <strong>namespace</strong>: <code>string</code></p></blockquote><p>Namespace of the pod.</p><h5 id="options" tabindex="-1">options <a class="header-anchor" href="#options" aria-label="Permalink to &quot;options&quot;">​</a></h5><blockquote><p><code>readonly</code> <strong>options</strong>: <code>Pick</code>&lt;<a href="./http/client.html#httpclientoptions"><code>HttpClientOptions</code></a>, <code>&quot;server&quot;</code> | <code>&quot;ca&quot;</code> | <code>&quot;tokenFile&quot;</code>&gt;</p></blockquote><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="inclusterconfig-1" tabindex="-1">inClusterConfig() <a class="header-anchor" href="#inclusterconfig-1" aria-label="Permalink to &quot;inClusterConfig()&quot;">​</a></h3><blockquote><p><strong>inClusterConfig</strong>(<code>folder?</code>): <code>Promise</code>&lt;<a href="#inclusterconfig"><code>InClusterConfig</code></a>&gt;</p></blockquote><p>Returns access with the service account that the kubelet mounts into a pod.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="folder" tabindex="-1">folder? <a class="header-anchor" href="#folder" aria-label="Permalink to &quot;folder?&quot;">​</a></h5><p><code>string</code> = <code>mountedFolder</code></p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>Promise</code>&lt;<a href="#inclusterconfig"><code>InClusterConfig</code></a>&gt;</p><h4 id="throws" tabindex="-1">Throws <a class="header-anchor" href="#throws" aria-label="Permalink to &quot;Throws&quot;">​</a></h4><p>Error if the files of the service account are absent</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/client/src/in-cluster-config.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const inClusterConfig = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  inClusterConfig as default
};
