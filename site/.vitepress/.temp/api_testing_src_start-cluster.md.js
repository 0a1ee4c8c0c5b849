import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"testing/src/start-cluster","description":"","frontmatter":{},"headers":[],"relativePath":"api/testing/src/start-cluster.md","filePath":"api/testing/src/start-cluster.md"}');
const _sfc_main = { name: "api/testing/src/start-cluster.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="testingsrcstart-cluster" tabindex="-1">testing/src/start-cluster <a class="header-anchor" href="#testingsrcstart-cluster" aria-label="Permalink to &quot;testing/src/start-cluster&quot;">​</a></h1><h2 id="variables" tabindex="-1">Variables <a class="header-anchor" href="#variables" aria-label="Permalink to &quot;Variables&quot;">​</a></h2><h3 id="startcluster" tabindex="-1">startCluster <a class="header-anchor" href="#startcluster" aria-label="Permalink to &quot;startCluster&quot;">​</a></h3><blockquote><p><code>const</code> <strong>startCluster</strong>: <code>Start</code></p></blockquote><p>Starts a cluster in this process, on a free port, in a temporary directory: <code>await using cluster = await startCluster()</code>.</p><h2 id="references" tabindex="-1">References <a class="header-anchor" href="#references" aria-label="Permalink to &quot;References&quot;">​</a></h2><h3 id="startclusteroptions" tabindex="-1">StartClusterOptions <a class="header-anchor" href="#startclusteroptions" aria-label="Permalink to &quot;StartClusterOptions&quot;">​</a></h3><p>Re-exports <a href="./test-cluster.html#startclusteroptions">StartClusterOptions</a></p><hr><h3 id="testcluster" tabindex="-1">TestCluster <a class="header-anchor" href="#testcluster" aria-label="Permalink to &quot;TestCluster&quot;">​</a></h3><p>Re-exports <a href="./test-cluster.html#testcluster">TestCluster</a></p><hr><h3 id="testplugin" tabindex="-1">TestPlugin <a class="header-anchor" href="#testplugin" aria-label="Permalink to &quot;TestPlugin&quot;">​</a></h3><p>Re-exports <a href="./test-cluster.html#testplugin">TestPlugin</a></p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/testing/src/start-cluster.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const startCluster = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  startCluster as default
};
