import { ssrRenderAttrs, ssrRenderStyle } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"admission-pod-topology-labels","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/admission-pod-topology-labels/index.md","filePath":"plugins/admission-pod-topology-labels/README.md"}');
const _sfc_main = { name: "plugins/admission-pod-topology-labels/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="admission-pod-topology-labels" tabindex="-1">admission-pod-topology-labels <a class="header-anchor" href="#admission-pod-topology-labels" aria-label="Permalink to &quot;admission-pod-topology-labels&quot;">​</a></h1><p>Copies the labels <code>topology.kubernetes.io/zone</code> and <code>topology.kubernetes.io/region</code> of a node to the pods that are bound to it.</p><p>Slot: <code>admission/v1</code>; upstream&#39;s PodTopologyLabels. Part of the default admission chain. Needs: informers.</p><h2 id="configuration" tabindex="-1">Configuration <a class="header-anchor" href="#configuration" aria-label="Permalink to &quot;Configuration&quot;">​</a></h2><p>None.</p><h2 id="example" tabindex="-1">Example <a class="header-anchor" href="#example" aria-label="Permalink to &quot;Example&quot;">​</a></h2><div class="language-yaml vp-adaptive-theme"><button title="Copy Code" class="copy"></button><span class="lang">yaml</span><pre class="shiki shiki-themes github-light github-dark vp-code" tabindex="0"><code><span class="line"><span style="${ssrRenderStyle({ "--shiki-light": "#22863A", "--shiki-dark": "#85E89D" })}">spec</span><span style="${ssrRenderStyle({ "--shiki-light": "#24292E", "--shiki-dark": "#E1E4E8" })}">:</span></span>
<span class="line"><span style="${ssrRenderStyle({ "--shiki-light": "#22863A", "--shiki-dark": "#85E89D" })}">  admission</span><span style="${ssrRenderStyle({ "--shiki-light": "#24292E", "--shiki-dark": "#E1E4E8" })}">: </span><span style="${ssrRenderStyle({ "--shiki-light": "#6A737D", "--shiki-dark": "#6A737D" })}"># replaces the default list, which \`oarlock config print\` shows</span></span>
<span class="line"><span style="${ssrRenderStyle({ "--shiki-light": "#24292E", "--shiki-dark": "#E1E4E8" })}">    - </span><span style="${ssrRenderStyle({ "--shiki-light": "#032F62", "--shiki-dark": "#9ECBFF" })}">admission-namespace-lifecycle</span></span>
<span class="line"><span style="${ssrRenderStyle({ "--shiki-light": "#24292E", "--shiki-dark": "#E1E4E8" })}">    - </span><span style="${ssrRenderStyle({ "--shiki-light": "#032F62", "--shiki-dark": "#9ECBFF" })}">admission-pod-topology-labels</span></span>
<span class="line"><span style="${ssrRenderStyle({ "--shiki-light": "#24292E", "--shiki-dark": "#E1E4E8" })}">    - </span><span style="${ssrRenderStyle({ "--shiki-light": "#032F62", "--shiki-dark": "#9ECBFF" })}">admission-resource-quota</span><span style="${ssrRenderStyle({ "--shiki-light": "#6A737D", "--shiki-dark": "#6A737D" })}"> # charges the final object: last</span></span></code></pre></div><h2 id="behavior-and-limits" tabindex="-1">Behavior and limits <a class="header-anchor" href="#behavior-and-limits" aria-label="Permalink to &quot;Behavior and limits&quot;">​</a></h2><ul><li>Applies to bindings, and to pods that are created with a node name.</li><li>An unknown node adds no labels.</li></ul><h2 id="metrics-and-events" tabindex="-1">Metrics and events <a class="header-anchor" href="#metrics-and-events" aria-label="Permalink to &quot;Metrics and events&quot;">​</a></h2><p>None of its own; the API server measures each plugin in <code>apiserver_admission_controller_admission_duration_seconds</code>.</p><h2 id="testing" tabindex="-1">Testing <a class="header-anchor" href="#testing" aria-label="Permalink to &quot;Testing&quot;">​</a></h2><p><code>npx vitest run plugins/admission-pod-topology-labels</code> runs the admission contract over the memory API, with upstream&#39;s messages.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/admission-pod-topology-labels/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
