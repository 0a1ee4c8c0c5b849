import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"network-cni","description":"","frontmatter":{},"headers":[],"relativePath":"packages/network-cni/ARCHITECTURE.md","filePath":"packages/network-cni/ARCHITECTURE.md"}');
const _sfc_main = { name: "packages/network-cni/ARCHITECTURE.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="network-cni" tabindex="-1">network-cni <a class="header-anchor" href="#network-cni" aria-label="Permalink to &quot;network-cni&quot;">​</a></h1><p>The parts that network plugins share which connect pods with lists of CNI plugins, Oarlock&#39;s or others&#39;.</p><table tabindex="0"><thead><tr><th>file</th><th>content</th></tr></thead><tbody><tr><td><code>cni/protocol.ts</code></td><td>configuration, results and errors of the CNI specification</td></tr><tr><td><code>cni/plugins.ts</code></td><td>executes plugins</td></tr><tr><td><code>cni/chain.ts</code></td><td>the operations on a list of plugins</td></tr><tr><td><code>cni/attachment-records.ts</code>, <code>cni/keyed-executor.ts</code>, <code>cni/attachments.ts</code></td><td>attachments, with records that survive a crash; ADD, CHECK, DEL and GC of a driver</td></tr><tr><td><code>cni/conflist.ts</code></td><td>the file that runtimes read</td></tr><tr><td><code>routing/node-setup.ts</code></td><td>kernel settings and rules of the node: forwarding, masquerading</td></tr><tr><td><code>routing/node-routes.ts</code>, <code>routing/node-peers.ts</code>, <code>routing/link-monitor.ts</code></td><td>routes to the pods of other nodes, directly or over VXLAN, restored when the kernel removed them with a link</td></tr></tbody></table></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/network-cni/ARCHITECTURE.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const ARCHITECTURE = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  ARCHITECTURE as default
};
