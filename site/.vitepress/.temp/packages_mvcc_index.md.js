import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"mvcc","description":"","frontmatter":{},"headers":[],"relativePath":"packages/mvcc/index.md","filePath":"packages/mvcc/README.md"}');
const _sfc_main = { name: "packages/mvcc/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="mvcc" tabindex="-1">mvcc <a class="header-anchor" href="#mvcc" aria-label="Permalink to &quot;mvcc&quot;">​</a></h1><p>A multi-version store in memory with watches, for storage plugins. <code>storage-memory</code> consists of it; <code>storage-embedded</code> adds a write-ahead log; <code>storage-etcd</code> uses its watch queues.</p><table tabindex="0"><thead><tr><th>file</th><th>content</th></tr></thead><tbody><tr><td><code>mvcc-store.ts</code></td><td>a map from key to versions, and two B+ trees: existing keys, and all readable keys. Both support ranks, so a page and the number of remaining entries cost O(log n + k). The owner assigns the revisions and applies commits</td></tr><tr><td><code>commit-validation.ts</code></td><td>validates writes and checks preconditions</td></tr><tr><td><code>internal/version-history.ts</code>, <code>internal/commit-log.ts</code></td><td>all versions since the last compaction in a ring buffer, and their removal</td></tr><tr><td><code>internal/change-broadcaster.ts</code>, <code>prefix-index.ts</code></td><td>distribute changes: a commit finds the watches of a key by its longest watched prefix, without cost for other watches. The changes of one turn of the event loop form one batch, delivered in a microtask; all watches of a prefix get the same object</td></tr><tr><td><code>watch-queue.ts</code></td><td>the queue of one watch, bounded in bytes and changes; a slow reader gets <code>Lagged</code></td></tr><tr><td><code>internal/historical-ranges.ts</code></td><td>caches a list at a past revision while its pages are read; reading it yields to the event loop</td></tr><tr><td><code>internal/expiry-queue.ts</code></td><td>keys with a time to live, in a heap by deadline</td></tr><tr><td><code>internal/sort-key.ts</code></td><td>maps keys so that plain comparison is the order of their UTF-8 bytes</td></tr></tbody></table><p>A range at the newest revision does not visit deleted keys. Compaction rejects old revisions immediately and removes them in slices. When the history exceeds its limits, each commit removes about one old commit. <code>hold</code> keeps the state at the oldest readable revision while a snapshot copies it.</p><p>The plugins run the storage contract; the index is tested against a model here.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/mvcc/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
