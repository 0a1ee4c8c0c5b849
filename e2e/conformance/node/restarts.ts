import { expect, it } from 'vitest';
import type { NodeWorkbench } from '../node-workbench.ts';
import type { FullPod } from '../pod-follower.ts';

/** Container restart rules (KEP-5307, KEP-5532). */
export function restartBehaviours(bench: NodeWorkbench): void {
  it('container restart rules override the policy of the pod', async () => {
    const rules = [{ action: 'Restart', exitCodes: { operator: 'In', values: [42] } }];
    const script = 'n=$(cat /v/n 2>/dev/null || echo 0); echo $((n + 1)) > /v/n; [ $n = 0 ] && exit 42; exit 7';
    const { metadata } = await bench.pod({
      containers: [
        bench.container(script, { restartPolicy: 'Never', restartPolicyRules: rules, volumeMounts: [{ name: 'v', mountPath: '/v' }] }),
      ],
      volumes: [{ name: 'v', emptyDir: {} }],
    });
    const { status } = await bench.pods.until(metadata.name, 'fail', (pod) => pod.status.phase === 'Failed');
    expect(status.containerStatuses?.[0]).toMatchObject({ restartCount: 1, state: { terminated: { exitCode: 7 } } });
    bench.forget(metadata.name);
  });

  it('RestartAllContainers restarts all containers, init containers too, in the same sandbox (KEP-5532)', async () => {
    const volumeMounts = [{ name: 'v', mountPath: '/v' }];
    const rules = [{ action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [88] } }];
    // exits once, when the other container runs
    const script = 'until [ -e /v/runs ]; do sleep 0.1; done; [ -e /v/asked ] && exec sleep 600; touch /v/asked; exit 88';
    const { metadata } = await bench.pod({
      initContainers: [bench.container('echo ran >> /v/init', { name: 'first', volumeMounts })],
      containers: [
        // ignores SIGTERM
        bench.container("trap '' TERM; touch /v/runs; while :; do sleep 1; done", { volumeMounts }),
        bench.container(script, { name: 'asker', restartPolicy: 'Never', restartPolicyRules: rules, volumeMounts }),
      ],
      volumes: [{ name: 'v', emptyDir: {} }],
      terminationGracePeriodSeconds: 600,
    });
    const of = (one: FullPod, name: string) => one.status.containerStatuses?.find((status) => status.name === name);
    const addresses = new Set<string | undefined>();
    const pod = await bench.pods.until(metadata.name, 'run again', (one) => {
      if (one.status.podIP) addresses.add(one.status.podIP);
      return of(one, 'asker')?.restartCount === 1 && of(one, 'asker')?.state?.running !== undefined;
    });
    expect(addresses.size).toBe(1);
    expect(of(pod, 'main')).toMatchObject({ restartCount: 1, lastState: { terminated: { exitCode: 137 } } });
    expect(of(pod, 'asker')?.lastState?.terminated?.exitCode).toBe(88);
    expect(pod.status.initContainerStatuses?.[0]).toMatchObject({ restartCount: 1, state: { terminated: { exitCode: 0 } } });
    expect(await bench.exec(metadata.name, 'cat', '/v/init')).toBe('ran\nran\n');
    bench.forget(metadata.name);
  });
}
