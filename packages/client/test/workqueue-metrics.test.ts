import { workqueueMetrics } from '@oarlock/client/workqueue-metrics';
import { Workqueue } from '@oarlock/primitives/workqueue/workqueue';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';

describe('workqueue metrics', () => {
  it('have the names of client-go, one set for all queues of a registry', async () => {
    const clock = new FakeClock({ start: 1000 });
    const metrics = new Registry();
    const one = new Workqueue({ clock, metrics: workqueueMetrics(metrics, 'one') });
    const two = new Workqueue({ clock, metrics: workqueueMetrics(metrics, 'two') });
    one.add('a');
    one.add('b');
    two.addRateLimited('c');
    await one.get();
    await clock.advance(2000);
    const text = await metrics.metrics();
    expect(text).toContain('workqueue_depth{name="one"} 1');
    expect(text).toContain('workqueue_depth{name="two"} 1');
    expect(text).toContain('workqueue_adds_total{name="one"} 2');
    expect(text).toContain('workqueue_retries_total{name="two"} 1');
    expect(text).toContain('workqueue_unfinished_work_seconds{name="one"} 2');
    expect(text).toContain('workqueue_longest_running_processor_seconds{name="one"} 2');
    one.done('a');
    expect(await metrics.metrics()).toContain('workqueue_work_duration_seconds_sum{name="one"} 2');
  });
});
