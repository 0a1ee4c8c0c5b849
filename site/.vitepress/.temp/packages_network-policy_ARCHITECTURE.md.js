import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"network-policy","description":"","frontmatter":{},"headers":[],"relativePath":"packages/network-policy/ARCHITECTURE.md","filePath":"packages/network-policy/ARCHITECTURE.md"}');
const _sfc_main = { name: "packages/network-policy/ARCHITECTURE.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="network-policy" tabindex="-1">network-policy <a class="header-anchor" href="#network-policy" aria-label="Permalink to &quot;network-policy&quot;">​</a></h1><p>Evaluates NetworkPolicies without a kernel and without I/O. Policy plugins, <code>oarlock explain traffic</code> and the page of the console use it.</p><table tabindex="0"><thead><tr><th>file</th><th>content</th></tr></thead><tbody><tr><td><code>peer-pod.ts</code></td><td>the properties of a pod that policies use</td></tr><tr><td><code>policy-rules.ts</code></td><td>a NetworkPolicy in the engine&#39;s form, with the defaults of the API</td></tr><tr><td><code>member-set.ts</code></td><td>the pods of a selection, as sets of addresses and of named ports that are kept up to date</td></tr><tr><td><code>explain-traffic.ts</code></td><td>the policies and rules that decide one connection</td></tr><tr><td><code>traffic-port.ts</code></td><td>ports as users write them, and their number at a destination</td></tr><tr><td><code>traffic-graph.ts</code></td><td>which groups of pods may connect to which</td></tr><tr><td><code>policy-engine.ts</code></td><td>sets, chains, and the chains that isolate each pod address of a node; tracks changes</td></tr></tbody></table></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/network-policy/ARCHITECTURE.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const ARCHITECTURE = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  ARCHITECTURE as default
};
