import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"Go clients","description":"","frontmatter":{},"headers":[],"relativePath":"e2e/go/index.md","filePath":"e2e/go/README.md"}');
const _sfc_main = { name: "e2e/go/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="go-clients" tabindex="-1">Go clients <a class="header-anchor" href="#go-clients" aria-label="Permalink to &quot;Go clients&quot;">​</a></h1><p>A program that uses a cluster through client-go as controllers and tools do: with default settings, protobuf, HTTP/2 and WatchList. <code>main.go</code> lists its steps; each tests one behavior of an API server and may run alone:</p><pre><code>go build -o /tmp/go-clients . &amp;&amp; /tmp/go-clients -kubeconfig &lt;data-dir&gt;/admin.kubeconfig typed informers
</code></pre><p><code>e2e/journeys/go-clients.test.ts</code> builds it and runs every step. It needs Go 1.26 or newer, the <code>client-go</code> and <code>apiextensions-apiserver</code> libraries of Kubernetes 0.36 and what they import, as sources below a <code>GOPATH</code>; without them the journey is skipped with the reason in its title. Debian packages them as <code>golang-go</code>, <code>golang-k8s-client-go-dev</code> and <code>golang-k8s-apiextensions-apiserver-dev</code>, in <code>/usr/share/gocode</code>. <code>GOROOT</code> and <code>GOPATH</code> select other directories.</p><table tabindex="0"><thead><tr><th>variable</th><th>meaning</th></tr></thead><tbody><tr><td><code>GOROOT</code></td><td>the directory of Go; default: <code>go</code> on the PATH</td></tr><tr><td><code>GOPATH</code></td><td>the directory that contains <code>src/k8s.io/client-go</code>; default: <code>/usr/share/gocode</code></td></tr><tr><td><code>GOCACHE</code></td><td>the cache of compiled packages; a first build takes minutes of processor time</td></tr></tbody></table><p>A step prints <code>ok</code>, or <code>FAIL</code> with the difference, and exits with 0 or 1. Each creates its own namespace and leaves it after a failure. <code>restart</code> prints a line that requests a restart of the server, and waits for the line <code>restarted</code> on its stdin. The journey sets <code>KUBE_WATCHLIST_INCONSISTENCY_DETECTOR</code>: informers then list once more after a WatchList, and panic if the results differ.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("e2e/go/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
