import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"ADR 3: Use one storage watch for all resources","description":"","frontmatter":{},"headers":[],"relativePath":"docs/adr/0003-single-storage-watch.md","filePath":"docs/adr/0003-single-storage-watch.md"}');
const _sfc_main = { name: "docs/adr/0003-single-storage-watch.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="adr-3-use-one-storage-watch-for-all-resources" tabindex="-1">ADR 3: Use one storage watch for all resources <a class="header-anchor" href="#adr-3-use-one-storage-watch-for-all-resources" aria-label="Permalink to &quot;ADR 3: Use one storage watch for all resources&quot;">​</a></h1><ul><li>Status: accepted</li><li>Date: 2026-11-21</li><li>Supersedes: -</li></ul><h2 id="context" tabindex="-1">Context <a class="header-anchor" href="#context" aria-label="Permalink to &quot;Context&quot;">​</a></h2><p>The API server holds the newest state of every resource in memory. It must keep this state current, and a consistent read must wait until the state is as new as the store.</p><h2 id="options" tabindex="-1">Options <a class="header-anchor" href="#options" aria-label="Permalink to &quot;Options&quot;">​</a></h2><table tabindex="0"><thead><tr><th>option</th><th>result</th></tr></thead><tbody><tr><td>One storage watch per resource</td><td>Simple. Costs one stream per resource; gives no order between resources, so each has a revision of its own; resources that rarely change need progress notifications one by one before they can serve a consistent read</td></tr><tr><td>One storage watch on <code>/registry/</code> for all resources</td><td>Adopted</td></tr></tbody></table><h2 id="decision" tabindex="-1">Decision <a class="header-anchor" href="#decision" aria-label="Permalink to &quot;Decision&quot;">​</a></h2><p>One watch on <code>/registry/</code> feeds the caches of all resources. The store delivers whole commits in the order of their revisions, and reports progress when nothing changes. A consistent read requests the newest revision of the store, once for all reads that wait at that moment, and is served from memory when the cache has reached it.</p><p>The API server recognizes its own writes by their value and does not parse them again. Each resource keeps a bounded ring of events for watches that resume; events of older revisions are read from the store.</p><h2 id="consequences" tabindex="-1">Consequences <a class="header-anchor" href="#consequences" aria-label="Permalink to &quot;Consequences&quot;">​</a></h2><ul><li>There is one stream, one order, and one revision that describes how current the cache is.</li><li>A storage plugin must watch by prefix across resources and report progress on request. The storage contract tests both.</li><li>A burst in one resource delays the events of other resources by the time that the API server needs to read it.</li><li>If the watch breaks, all caches resume together from one revision.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("docs/adr/0003-single-storage-watch.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const _0003SingleStorageWatch = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  _0003SingleStorageWatch as default
};
