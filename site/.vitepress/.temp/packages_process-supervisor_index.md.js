import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"process-supervisor","description":"","frontmatter":{},"headers":[],"relativePath":"packages/process-supervisor/index.md","filePath":"packages/process-supervisor/README.md"}');
const _sfc_main = { name: "packages/process-supervisor/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="process-supervisor" tabindex="-1">process-supervisor <a class="header-anchor" href="#process-supervisor" aria-label="Permalink to &quot;process-supervisor&quot;">​</a></h1><p>A process that owns the containers of a runtime plugin and outlives the plugin&#39;s process, like containerd-shim (<a href="./../../docs/adr/0004-process-runtime-supervisor.html">ADR 4</a>). <code>runtime-process</code> and <code>runtime-oci</code> use it; what differs between them is the <code>ContainerLauncher</code>.</p><table tabindex="0"><thead><tr><th>folder</th><th>content</th></tr></thead><tbody><tr><td><code>client</code></td><td>the plugin&#39;s side: <code>SupervisedRuntime</code> (sandboxes and containers of a runtime driver), the connection, sessions, network namespaces of pods</td></tr><tr><td><code>supervisor</code></td><td>the supervisor&#39;s side: <code>runSupervisor</code>, its socket, sessions, sandboxes, one supervisor per directory</td></tr><tr><td><code>containers</code></td><td>containers from creation to removal, their pipes, logs in CRI format, records on disk; <code>ContainerLauncher</code>, which a runtime implements</td></tr><tr><td><code>protocol</code></td><td>messages and frames between both sides</td></tr><tr><td><code>host</code></td><td>control groups, the process table, programs of the machine</td></tr></tbody></table><p>A plugin has a module that calls <code>runSupervisor</code> with its launcher, and names it in <code>SupervisorProgram</code>.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/process-supervisor/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
