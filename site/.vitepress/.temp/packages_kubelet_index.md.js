import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"@oarlock/kubelet","description":"","frontmatter":{},"headers":[],"relativePath":"packages/kubelet/index.md","filePath":"packages/kubelet/README.md"}');
const _sfc_main = { name: "packages/kubelet/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="oarlockkubelet" tabindex="-1">@oarlock/kubelet <a class="header-anchor" href="#oarlockkubelet" aria-label="Permalink to &quot;@oarlock/kubelet&quot;">​</a></h1><p>The role <code>kubelet</code>: runs the pods of a node. <a href="./ARCHITECTURE.html">ARCHITECTURE.md</a> describes how it works. Its settings are <code>settings.kubelet</code> in <a href="./../../docs/cluster-yaml.html">docs/cluster-yaml.md</a>, validated by <code>src/config/kubelet-config.ts</code>.</p><p>It requires the slots <code>runtime</code> (at least one plugin), <code>client</code>, <code>informers</code>, <code>events</code>, <code>cluster</code> and <code>keys</code>, and uses <code>network</code>, <code>policy</code> and <code>volume</code> if they are filled.</p><table tabindex="0"><thead><tr><th>path below <code>rootDir</code></th><th>content</th></tr></thead><tbody><tr><td><code>pods/&lt;uid&gt;/volumes/&lt;driver&gt;/&lt;volume&gt;</code></td><td>volumes that drivers mount or write</td></tr><tr><td><code>pods/&lt;uid&gt;/volume-subpaths</code>, <code>containers</code>, <code>etc-hosts</code></td><td>bind mounts of sub-paths, termination messages, the hosts file</td></tr><tr><td><code>logs/&lt;namespace&gt;_&lt;name&gt;_&lt;uid&gt;/&lt;container&gt;/&lt;attempt&gt;.log</code></td><td>container logs in CRI format, rotated</td></tr><tr><td><code>seccomp/</code></td><td>seccomp profiles of type <code>Localhost</code></td></tr></tbody></table><p>Besides <code>rootDir</code> the kubelet changes the machine&#39;s mounts (as root: tmpfs volumes, sub-paths and local volumes, all below <code>pods</code>, removed with their pods) and, where it manages them, the machine&#39;s cgroups. <code>rootDir</code> has mode 0700, because it contains secrets.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/kubelet/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
