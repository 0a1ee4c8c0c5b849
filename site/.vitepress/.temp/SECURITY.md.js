import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"Security policy","description":"","frontmatter":{},"headers":[],"relativePath":"SECURITY.md","filePath":"SECURITY.md"}');
const _sfc_main = { name: "SECURITY.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="security-policy" tabindex="-1">Security policy <a class="header-anchor" href="#security-policy" aria-label="Permalink to &quot;Security policy&quot;">​</a></h1><h2 id="report-a-vulnerability" tabindex="-1">Report a vulnerability <a class="header-anchor" href="#report-a-vulnerability" aria-label="Permalink to &quot;Report a vulnerability&quot;">​</a></h2><p>Report privately through the repository&#39;s security advisories (&quot;Report a vulnerability&quot;), not in a public issue. Include the version or commit, the <code>cluster.yaml</code>, the steps and the effect. You receive an answer within seven days. A fix is published together with an advisory that names the reporter, unless the reporter prefers otherwise.</p><h2 id="supported-versions" tabindex="-1">Supported versions <a class="header-anchor" href="#supported-versions" aria-label="Permalink to &quot;Supported versions&quot;">​</a></h2><p>Oarlock is before its first release: fixes are made on the main branch only.</p><h2 id="what-is-promised" tabindex="-1">What is promised <a class="header-anchor" href="#what-is-promised" aria-label="Permalink to &quot;What is promised&quot;">​</a></h2><p><a href="./docs/threat-model.html">docs/threat-model.md</a> describes the trust boundaries and what each kind of attacker can do. In short:</p><ul><li>Clients without credentials reach only health, version and discovery of public information.</li><li>Users and service accounts have only the rights that RBAC gives them.</li><li>A node has only the rights of its own pods.</li><li>Plugins in the process of the API server are trusted code.</li><li>The embedded composition runs pods as processes of the user who started it; it isolates pods from each other only as far as that page states.</li></ul><h2 id="supply-chain" tabindex="-1">Supply chain <a class="header-anchor" href="#supply-chain" aria-label="Permalink to &quot;Supply chain&quot;">​</a></h2><table tabindex="0"><thead><tr><th>rule</th><th>checked by</th></tr></thead><tbody><tr><td>Installations use <code>npm ci --ignore-scripts</code>: the lock file decides, and no install script runs</td><td><code>tools/setup.mjs</code></td></tr><tr><td>Each locked package has a SHA-512 digest, a license from a list, and an install script only with a reason</td><td><code>npm run dependencies</code> in <code>npm test</code></td></tr><tr><td>Signatures of the packages are those of the registry</td><td><code>npm audit signatures</code> in both workflows</td></tr><tr><td>A release has a CycloneDX bill of materials of the product&#39;s dependencies, with a provenance attestation</td><td>the release workflow; locally <code>npm run dependencies -- --sbom FILE</code></td></tr></tbody></table></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("SECURITY.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const SECURITY = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  SECURITY as default
};
