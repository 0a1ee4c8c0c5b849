import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"grpc","description":"","frontmatter":{},"headers":[],"relativePath":"packages/grpc/ARCHITECTURE.md","filePath":"packages/grpc/ARCHITECTURE.md"}');
const _sfc_main = { name: "packages/grpc/ARCHITECTURE.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="grpc" tabindex="-1">grpc <a class="header-anchor" href="#grpc" aria-label="Permalink to &quot;grpc&quot;">​</a></h1><p>gRPC over unix sockets, for protocols that are written as tables of field numbers (<code>MessageTable</code>): a client that reconnects, a server, an error with the name of the gRPC status (<code>GrpcError</code>), and the kubelet&#39;s side of plugin registration (<code>PluginWatcher</code>, <code>RegistrationClient</code>). <code>runtime-containerd</code> uses its own channel for CRI streams.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/grpc/ARCHITECTURE.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const ARCHITECTURE = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  ARCHITECTURE as default
};
