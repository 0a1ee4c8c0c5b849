import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authn-webhook","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authn-webhook/index.md","filePath":"plugins/authn-webhook/README.md"}');
const _sfc_main = { name: "plugins/authn-webhook/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authn-webhook" tabindex="-1">authn-webhook <a class="header-anchor" href="#authn-webhook" aria-label="Permalink to &quot;authn-webhook&quot;">​</a></h1><p>Authenticates bearer tokens with an external webhook: <code>POST</code> of a <code>TokenReview</code>, <code>authentication.k8s.io/v1</code>. Results are cached by the hash of the token. Off by default.</p><table tabindex="0"><thead><tr><th>key</th><th>default</th><th>meaning</th></tr></thead><tbody><tr><td><code>url</code></td><td>this or <code>kubeconfigFile</code></td><td><code>https://</code>; <code>http://</code> for this host only</td></tr><tr><td><code>caFile</code>, <code>certificateFile</code>, <code>keyFile</code>, <code>tokenFile</code></td><td></td><td>files that verify the webhook and authenticate the API server</td></tr><tr><td><code>kubeconfigFile</code></td><td></td><td>as Kubernetes configures webhooks: server, CA, certificate or token of the current context</td></tr><tr><td><code>audiences</code></td><td>none</td><td>the audiences of which the token must have one; the webhook may return none if it does not know audiences</td></tr><tr><td><code>timeoutSeconds</code></td><td>10</td><td>timeout of a review</td></tr><tr><td><code>cacheSeconds</code>, <code>refusedCacheSeconds</code></td><td>120, 10</td><td>time for which successes and other results are cached</td></tr></tbody></table><p>If the webhook fails, the API server calls the next authenticator; if none authenticates the sender, the request fails with 401. As in Kubernetes, a token without any required audience is not authenticated.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authn contract against a webhook on this host; audiences, extra keys such as <code>__proto__</code>, cache and concurrent requests.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authn-webhook/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
