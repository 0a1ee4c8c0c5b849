import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { WebhookMetrics } from '../src/webhook-metrics.ts';

it('counts webhook calls by result', async () => {
  const registry = new Registry();
  const metrics = new WebhookMetrics(registry);
  const asked = { name: 'h.example.com', mutating: true, operation: 'CREATE' } as const;
  metrics.observe(asked, { seconds: 0.02, code: 200, rejection: undefined });
  metrics.observe(asked, { seconds: 3, code: 700, rejection: 'no_error' });
  metrics.failedOpen({ ...asked, mutating: false });
  const text = await registry.metrics();
  const labels = 'name="h.example.com",type="admit",operation="CREATE"';
  for (const line of [
    `apiserver_admission_webhook_request_total{${labels},code="200",rejected="false"} 1`,
    `apiserver_admission_webhook_request_total{${labels},code="600",rejected="true"} 1`,
    `apiserver_admission_webhook_rejection_count{${labels},error_type="no_error",rejection_code="600"} 1`,
    `apiserver_admission_webhook_admission_duration_seconds_bucket{le="0.025",${labels},rejected="false"} 1`,
    `apiserver_admission_webhook_admission_duration_seconds_bucket{le="10",${labels},rejected="true"} 1`,
    'apiserver_admission_webhook_fail_open_count{name="h.example.com",type="validating"} 1',
  ])
    expect(text).toContain(`${line}\n`);
});
