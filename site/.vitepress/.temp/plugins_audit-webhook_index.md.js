import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"audit-webhook","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/audit-webhook/index.md","filePath":"plugins/audit-webhook/README.md"}');
const _sfc_main = { name: "plugins/audit-webhook/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="audit-webhook" tabindex="-1">audit-webhook <a class="header-anchor" href="#audit-webhook" aria-label="Permalink to &quot;audit-webhook&quot;">​</a></h1><p>Sends audit events to a service outside: <code>POST</code> of an <code>EventList</code> of <code>audit.k8s.io/v1</code>.</p><table tabindex="0"><thead><tr><th>key</th><th>default</th><th></th></tr></thead><tbody><tr><td><code>url</code></td><td>this or <code>kubeconfigFile</code></td><td><code>https://</code>; <code>http://</code> only to this host</td></tr><tr><td><code>caFile</code>, <code>certificateFile</code>, <code>keyFile</code>, <code>tokenFile</code></td><td></td><td>how the service is known, and how it knows this server</td></tr><tr><td><code>kubeconfigFile</code></td><td></td><td>as upstream names its webhooks: server, CA, certificate or token of the current context</td></tr><tr><td><code>mode</code></td><td><code>batch</code></td><td><code>blocking</code>: no request is begun while events of earlier ones are being sent. <code>blocking-strict</code>: moreover, a request whose <code>RequestReceived</code> cannot be sent fails with 500</td></tr><tr><td><code>bufferSize</code></td><td>10000</td><td>in <code>batch</code>: events that may wait; more are dropped and counted in <code>audit_webhook_dropped_total</code></td></tr><tr><td><code>maxBatchSize</code>, <code>maxBatchWaitSeconds</code></td><td>400, 30</td><td>a batch is sent when it is full, or when its first event has waited this long</td></tr><tr><td><code>throttle.qps</code>, <code>throttle.burst</code></td><td>10, 15</td><td>batches a second, and how many at once; <code>throttle: null</code> for as many as there are</td></tr><tr><td><code>timeoutSeconds</code></td><td>10</td><td></td></tr><tr><td><code>initialBackoffSeconds</code></td><td>10</td><td>before the second attempt; a batch is given up after five</td></tr><tr><td><code>maxEventBytes</code></td><td>102400</td><td>a longer event is sent without its objects and annotated <code>audit.k8s.io/truncated</code>, or dropped</td></tr></tbody></table><p>A stop sends what waits, once.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The audit contract against a service on this host that stalls; batches, throttling, repeated attempts and a kubeconfig.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/audit-webhook/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
