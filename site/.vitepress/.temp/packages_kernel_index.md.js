import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"kernel","description":"","frontmatter":{},"headers":[],"relativePath":"packages/kernel/index.md","filePath":"packages/kernel/README.md"}');
const _sfc_main = { name: "packages/kernel/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="kernel" tabindex="-1">kernel <a class="header-anchor" href="#kernel" aria-label="Permalink to &quot;kernel&quot;">​</a></h1><p>Slots, plugins and the host that creates, starts and stops them. The package is independent of Kubernetes and of every other Oarlock package except <code>primitives</code>.</p><table tabindex="0"><thead><tr><th>file</th><th>content</th></tr></thead><tbody><tr><td><code>plugin.ts</code></td><td><code>Slot</code>, <code>Plugin</code>, <code>PluginSpec</code>, <code>PluginContext</code>, <code>Lifecycle</code>: what an author writes and what the host supplies</td></tr><tr><td><code>slot.ts</code></td><td><code>slot.one</code>, <code>slot.chain</code>, <code>slot.named</code>: create a slot with an id, a version and an arity</td></tr><tr><td><code>placement.ts</code></td><td>a plugin in a composition, with its config and the source positions for faults</td></tr><tr><td><code>plugin-host.ts</code></td><td><code>add</code>, <code>check</code>, <code>probe</code>, <code>start</code>, <code>stop</code>, <code>replace</code></td></tr><tr><td><code>plugin-health.ts</code></td><td>counts the faults of a plugin, and knows whose code runs</td></tr><tr><td><code>internal/lifecycle-calls.ts</code></td><td>calls <code>create</code>, <code>start</code> and <code>stop</code>, with the limits of a placement</td></tr><tr><td><code>internal/composition-check.ts</code></td><td>finds empty slots, dependency cycles and duplicate names before anything runs</td></tr><tr><td><code>internal/container.ts</code></td><td>the only file that imports the dependency injection container</td></tr><tr><td><code>errors.ts</code></td><td><code>WiringError</code>, which carries all faults of a composition</td></tr><tr><td><code>config-issue.ts</code>, <code>known-keys.ts</code></td><td>messages for config errors, with a suggestion for a misspelled key</td></tr><tr><td><code>tracing.ts</code></td><td>spans and W3C trace context</td></tr></tbody></table><p><a href="./../../docs/adr/0001-kernel-shape.html">ADR 1</a> describes the steps of the host and the reasons for them.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/kernel/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
