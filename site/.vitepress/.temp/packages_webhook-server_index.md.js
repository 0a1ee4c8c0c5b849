import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"@oarlock/webhook-server","description":"","frontmatter":{},"headers":[],"relativePath":"packages/webhook-server/index.md","filePath":"packages/webhook-server/README.md"}');
const _sfc_main = { name: "packages/webhook-server/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="oarlockwebhook-server" tabindex="-1">@oarlock/webhook-server <a class="header-anchor" href="#oarlockwebhook-server" aria-label="Permalink to &quot;@oarlock/webhook-server&quot;">​</a></h1><p>Runs an exported plugin of Oarlock as a webhook of any Kubernetes: an HTTPS server that answers reviews.</p><table tabindex="0"><thead><tr><th>slot</th><th>path</th><th>review</th></tr></thead><tbody><tr><td>admission</td><td><code>/mutate</code>, <code>/validate</code></td><td><code>AdmissionReview</code> of <code>admission.k8s.io/v1</code>: a JSON patch, warnings, audit annotations, a status</td></tr><tr><td>authn</td><td><code>/authenticate</code></td><td><code>TokenReview</code> of <code>authentication.k8s.io</code></td></tr><tr><td>authz</td><td><code>/authorize</code></td><td><code>SubjectAccessReview</code> of <code>authorization.k8s.io</code></td></tr></tbody></table><p><code>/healthz</code> succeeds while it runs, <code>/readyz</code> until it drains. A body has at most 8 MiB. A changed certificate on the disk is reloaded. An exception of the plugin is a response with 500, to which the API server applies the webhook&#39;s <code>failurePolicy</code>. <code>oarlock plugins export --webhook</code> builds the image and the manifests.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/webhook-server/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
