import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authz-node","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authz-node/index.md","filePath":"plugins/authz-node/README.md"}');
const _sfc_main = { name: "plugins/authz-node/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authz-node" tabindex="-1">authz-node <a class="header-anchor" href="#authz-node" aria-label="Permalink to &quot;authz-node&quot;">​</a></h1><p>The Node authorizer of Kubernetes: what a node may do depends on its name and on the pods that are bound to it. Nodes authenticate as <code>system:node:NAME</code> in the group <code>system:nodes</code>.</p><p>A node may read a Secret, ConfigMap, PersistentVolumeClaim, PersistentVolume, ResourceClaim or ServiceAccount, and request a token of a ServiceAccount, only if a pod that is bound to it refers to the object. Informers keep these paths in a graph (<code>src/node-graph.ts</code>). If the graph has no path, the plugin reads the pods of the node from the API before it decides, because informers may lag behind.</p><p>A node may read its own Node, its own pods (lists and watches require the field selector <code>spec.nodeName</code>), its own Lease, CSINode and ResourceSlices. <code>src/node-rules.ts</code> lists what every node may do. <code>admission-node-restriction</code> checks what a node writes in these objects.</p><h2 id="config" tabindex="-1">Config <a class="header-anchor" href="#config" aria-label="Permalink to &quot;Config&quot;">​</a></h2><p>None. Needs: a client and informers.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authz contract with allowed and not allowed requests of a node; the graph while pods, volumes and claims are created and deleted.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authz-node/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
