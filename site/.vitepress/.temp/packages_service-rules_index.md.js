import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"service-rules","description":"","frontmatter":{},"headers":[],"relativePath":"packages/service-rules/index.md","filePath":"packages/service-rules/README.md"}');
const _sfc_main = { name: "packages/service-rules/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="service-rules" tabindex="-1">service-rules <a class="header-anchor" href="#service-rules" aria-label="Permalink to &quot;service-rules&quot;">​</a></h1><p>The rules that proxy plugins for the kernel share, independent of the rule language; each plugin implements a <code>RuleWriter</code>.</p><table tabindex="0"><thead><tr><th>module</th><th>content</th></tr></thead><tbody><tr><td><code>port-rules</code></td><td>the frontends of a Service port, and the endpoints behind each: traffic policies, address families, source ranges</td></tr><tr><td><code>kernel-proxy</code></td><td><code>KernelProxy</code>: tracks the programmed ports and passes changes to the <code>RuleWriter</code></td></tr><tr><td><code>kernel-proxy-config</code></td><td>the configuration of these plugins</td></tr><tr><td><code>udp-flows</code></td><td>deletes stale UDP conntrack entries</td></tr></tbody></table></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/service-rules/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
