import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"controller-kit","description":"","frontmatter":{},"headers":[],"relativePath":"packages/controller-kit/index.md","filePath":"packages/controller-kit/README.md"}');
const _sfc_main = { name: "packages/controller-kit/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="controller-kit" tabindex="-1">controller-kit <a class="header-anchor" href="#controller-kit" aria-label="Permalink to &quot;controller-kit&quot;">​</a></h1><p>Custom resources and controllers for authors of plugins. The <a href="./../../docs/tutorial-controller.html">tutorial</a> uses all of it; <a href="./../../docs/adr/0045-controller-kit.html">ADR 45</a> gives the reasons.</p><table tabindex="0"><thead><tr><th>subpath</th><th>content</th></tr></thead><tbody><tr><td><code>custom-resource</code></td><td><code>customResource(options)</code>: a typed handle and a CustomResourceDefinition from zod schemas; versions and conversion</td></tr><tr><td><code>fields</code></td><td>what zod does not have: <code>rule</code>, <code>immutable</code>, <code>conditions</code>, <code>listMap</code>, <code>listSet</code>, <code>atomicMap</code>, <code>intOrString</code>, <code>quantity</code>, <code>goDuration</code>, <code>objectOf</code></td></tr><tr><td><code>structural-schema</code></td><td><code>structuralSchema(type)</code>: the structural schema of a zod schema, or a <code>SchemaError</code> with the field and the remedy</td></tr><tr><td><code>controller-for</code></td><td><code>controllerFor(kind, { id, config }).owns(kind).reconcile(...)</code>: a plugin of <code>controller/v1</code></td></tr><tr><td><code>reconciliation</code></td><td>what a reconcile function receives: <code>apply</code>, <code>setStatus</code>, <code>owned</code>, <code>lister</code>, <code>event</code></td></tr><tr><td><code>conditions</code></td><td><code>setCondition</code>, <code>nextCondition</code>, <code>findCondition</code>, <code>isConditionTrue</code>, <code>removeCondition</code>, with the semantics of <code>meta.SetStatusCondition</code></td></tr><tr><td><code>conversion</code></td><td><code>conversionPlugin(id, kind)</code>: a plugin of <code>paths/v1</code> that answers ConversionReviews</td></tr><tr><td><code>type-declarations</code></td><td><code>typeDeclarations(definitions)</code>: the TypeScript module that <code>oarlock plugins types</code> writes</td></tr></tbody></table><p>The controller manager runs the controllers: the package has no queue, informer or leader election of its own. It depends on <code>api</code>, <code>kernel</code>, <code>primitives</code>, <code>spi</code> and zod.</p><p>Test support is in <code>@oarlock/testing</code>: <code>testController</code>, <code>eventually</code>, <code>startCluster</code>, <code>controllerPluginContract</code>. <code>test/scenarios/cluster.test.ts</code> runs controllers and conversions of the kit in a cluster; <code>UPDATE_GOLDEN=1</code> writes the expected types again.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/controller-kit/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
