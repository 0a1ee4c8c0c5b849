import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authn-request-header","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authn-request-header/index.md","filePath":"plugins/authn-request-header/README.md"}');
const _sfc_main = { name: "plugins/authn-request-header/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authn-request-header" tabindex="-1">authn-request-header <a class="header-anchor" href="#authn-request-header" aria-label="Permalink to &quot;authn-request-header&quot;">​</a></h1><p>Authenticates the users of an authenticating proxy. The proxy presents a client certificate of the front-proxy CA with one of the allowed common names and names the user in request headers. Headers of all other clients are ignored, also of clients with a certificate of the cluster CA. The plugin precedes the other authenticators in the list. Off by default. <a href="./../../docs/security.html#front-proxy-ca">How to issue the certificate</a>.</p><table tabindex="0"><thead><tr><th>key</th><th>default</th><th>meaning</th></tr></thead><tbody><tr><td><code>allowedNames</code></td><td>required</td><td>common names of the proxies&#39; certificates</td></tr><tr><td><code>usernameHeaders</code></td><td><code>X-Remote-User</code></td><td>the first header with a value is the user name</td></tr><tr><td><code>uidHeaders</code></td><td><code>X-Remote-Uid</code></td><td>the first header with a value is the UID</td></tr><tr><td><code>groupHeaders</code></td><td><code>X-Remote-Group</code></td><td>the values of the first header with a value are the groups</td></tr><tr><td><code>extraHeaderPrefixes</code></td><td><code>X-Remote-Extra-</code></td><td>the rest of the header name is the key, percent-encoded</td></tr></tbody></table><p>A request with a certificate of the front-proxy CA and without a user header is rejected with 401: such a certificate authenticates no user.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authn contract: requests without a certificate, with a certificate of the cluster CA, or with another common name are not authenticated. Extra keys such as <code>__proto__</code>. Attacks over HTTPS are in <code>packages/testing/test/scenarios/front-proxy.test.ts</code>.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authn-request-header/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
