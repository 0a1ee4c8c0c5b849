import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"admission-rules","description":"","frontmatter":{},"headers":[],"relativePath":"packages/admission-rules/index.md","filePath":"packages/admission-rules/README.md"}');
const _sfc_main = { name: "packages/admission-rules/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="admission-rules" tabindex="-1">admission-rules <a class="header-anchor" href="#admission-rules" aria-label="Permalink to &quot;admission-rules&quot;">​</a></h1><p>The parts that admission plugins with rules in API objects share: ValidatingAdmissionPolicies, MutatingAdmissionPolicies and webhooks.</p><table tabindex="0"><thead><tr><th>module</th><th>content</th></tr></thead><tbody><tr><td><code>matcher</code></td><td>rules, exclusions, namespace and object selectors of one policy, binding or webhook; <code>isExempt</code> returns which requests no rule applies to</td></tr><tr><td><code>match-conditions</code></td><td>CEL conditions in addition to the rules: a false one excludes the request; an error counts only if none is false</td></tr><tr><td><code>admission-environment</code>, <code>request-bindings</code>, <code>admission-request</code></td><td>the variables of expressions and their values for a request, computed on first use</td></tr><tr><td><code>configuration-source</code></td><td>configuration objects of the informer, compiled once per version; read from the API server until the informer has synced</td></tr><tr><td><code>policy-hook-source</code>, <code>policy-dispatch</code></td><td>policies with their bindings; evaluates the policies that match a request, in order</td></tr><tr><td><code>namespace-objects</code>, <code>policy-params</code></td><td>namespaces by name; the parameter objects of bindings</td></tr><tr><td><code>policy-variables</code></td><td>composited variables, evaluated on first use</td></tr><tr><td><code>type-checking</code></td><td>type errors of a policy&#39;s expressions, for <code>status.typeChecking</code></td></tr><tr><td><code>policy-configuration</code>, <code>param-access</code></td><td>validation of policies on write: expressions must compile, and the writer must be allowed to read the parameters</td></tr><tr><td><code>reinvocation-context</code></td><td>which policies and webhooks run again after a later mutation</td></tr><tr><td><code>versioned-request</code></td><td>requests in the resource version that a rule names</td></tr><tr><td><code>signers</code></td><td>permissions for certificate signers</td></tr></tbody></table><p>The decisions are made by the plugins, whose tests cover these modules.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/admission-rules/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
