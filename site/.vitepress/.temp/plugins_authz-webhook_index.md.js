import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authz-webhook","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authz-webhook/index.md","filePath":"plugins/authz-webhook/README.md"}');
const _sfc_main = { name: "plugins/authz-webhook/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authz-webhook" tabindex="-1">authz-webhook <a class="header-anchor" href="#authz-webhook" aria-label="Permalink to &quot;authz-webhook&quot;">​</a></h1><p>Authorizes requests with an external webhook: <code>POST</code> of a <code>SubjectAccessReview</code>, <code>authorization.k8s.io/v1</code>. Off by default.</p><table tabindex="0"><thead><tr><th>key</th><th>default</th><th>meaning</th></tr></thead><tbody><tr><td><code>url</code></td><td>this or <code>kubeconfigFile</code></td><td><code>https://</code>; <code>http://</code> for this host only</td></tr><tr><td><code>caFile</code>, <code>certificateFile</code>, <code>keyFile</code>, <code>tokenFile</code></td><td></td><td>files that verify the webhook and authenticate the API server</td></tr><tr><td><code>kubeconfigFile</code></td><td></td><td>as Kubernetes configures webhooks: server, CA, certificate or token of the current context</td></tr><tr><td><code>timeoutSeconds</code></td><td>10</td><td>timeout of a review</td></tr><tr><td><code>authorizedCacheSeconds</code>, <code>unauthorizedCacheSeconds</code></td><td>300, 30</td><td>time for which allowed requests and other decisions are cached</td></tr><tr><td><code>failurePolicy</code></td><td><code>NoOpinion</code></td><td>the decision if the webhook fails: <code>NoOpinion</code> or <code>Deny</code></td></tr><tr><td><code>matchConditions[].expression</code></td><td>none</td><td>CEL over <code>request</code>, the spec of the review; the webhook is called if all are true</td></tr></tbody></table><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authz contract against a webhook on this host; cache, failure policy and match conditions.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authz-webhook/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
