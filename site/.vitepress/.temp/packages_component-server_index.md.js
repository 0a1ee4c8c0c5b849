import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"@oarlock/component-server","description":"","frontmatter":{},"headers":[],"relativePath":"packages/component-server/index.md","filePath":"packages/component-server/README.md"}');
const _sfc_main = { name: "packages/component-server/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="oarlockcomponent-server" tabindex="-1">@oarlock/component-server <a class="header-anchor" href="#oarlockcomponent-server" aria-label="Permalink to &quot;@oarlock/component-server&quot;">​</a></h1><p>Runs an exported plugin of Oarlock as a component of any Kubernetes, with the service account of its pod or with a kubeconfig.</p><table tabindex="0"><thead><tr><th>slot</th><th>module</th><th>component</th></tr></thead><tbody><tr><td>controller</td><td><code>serve-controller</code></td><td>the controller, on the replica that holds the Lease</td></tr><tr><td>scheduling</td><td><code>serve-scheduler</code></td><td>a scheduler with the in-tree plugins and the exported one, for pods with its <code>schedulerName</code></td></tr></tbody></table><p><code>oarlock plugins export --controller</code> and <code>--scheduler</code> bundle it with the plugin and write the image and the manifests.</p><table tabindex="0"><thead><tr><th>flag</th><th>default</th></tr></thead><tbody><tr><td><code>--kubeconfig FILE</code></td><td>the service account of the pod</td></tr><tr><td><code>--config FILE</code></td><td><code>/etc/oarlock/config/config.json</code></td></tr><tr><td><code>--address</code>, <code>--port</code> of <code>/healthz</code>, <code>/readyz</code> and <code>/metrics</code></td><td><code>0.0.0.0</code>, <code>8080</code></td></tr><tr><td><code>--leader-elect</code></td><td><code>true</code></td></tr><tr><td><code>--leader-elect-resource-name</code>, <code>--leader-elect-resource-namespace</code></td><td>the id of the plugin, the namespace of the pod or of the kubeconfig&#39;s context</td></tr><tr><td><code>--leader-elect-lease-duration</code>, <code>--leader-elect-renew-deadline</code>, <code>--leader-elect-retry-period</code></td><td><code>15s</code>, <code>10s</code>, <code>2s</code></td></tr><tr><td><code>--scheduler-name</code></td><td>the id of the plugin</td></tr></tbody></table><p><code>/healthz</code> fails when the controller or scheduler has ended by an error, so that the kubelet restarts the container; <code>/readyz</code> succeeds after the caches have synced, on followers too. SIGTERM ends reconciles in flight and releases the Lease.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/component-server/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
