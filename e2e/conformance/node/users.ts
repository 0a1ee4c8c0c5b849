import { expect, it } from 'vitest';
import { busyboxImage } from '../../fixtures/test-image.ts';
import type { NodeWorkbench } from '../node-workbench.ts';

interface NodeFeatures {
  readonly status: { readonly runtimeHandlers?: readonly { readonly features?: { readonly userNamespaces?: boolean } }[] };
}

/** Environment variables from files, and user namespaces. */
export function userBehaviours(bench: NodeWorkbench): void {
  it('variables are read from a file that an init container has written (KEP-3721)', async () => {
    const volumeMounts = [{ name: 'config', mountPath: '/data' }];
    const from = (key: string, optional?: boolean) => ({ fileKeyRef: { volumeName: 'config', path: 'sub/app.env', key, optional } });
    const script = `mkdir /data/sub && printf "# ours\\nGREETING='hello  \\$HOME'\\n" > /data/sub/app.env`;
    const output = await bench.outputOf({
      initContainers: [{ ...bench.container(script), name: 'writer', volumeMounts }],
      containers: [
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell's
        bench.container('echo "$WORD|${ABSENT-unset}"', {
          env: [
            { name: 'WORD', valueFrom: from('GREETING') },
            { name: 'ABSENT', valueFrom: from('OTHER', true) },
          ],
        }),
      ],
      volumes: [{ name: 'config', emptyDir: {} }],
    });
    expect(output).toBe('hello  $HOME|unset\n');
  });

  it('a pod with a user namespace is root inside only, and owns its files (KEP-127)', async (context) => {
    const { items } = await bench.api.get<{ readonly items: readonly NodeFeatures[] }>('/api/v1/nodes');
    const able = items.every(({ status }) => status.runtimeHandlers?.some(({ features }) => features?.userNamespaces));
    context.skip(!able, 'the container runtime has no user namespaces (containerd before 2)');
    const script = 'cat /proc/self/uid_map; echo x > /data/file; stat -c "%u %g" /data/file /etc/hosts /settings/a';
    const pod = (name: string) => ({
      hostUsers: false,
      containers: [
        {
          name,
          image: busyboxImage,
          command: ['sh', '-c', script],
          volumeMounts: [
            { name: 'data', mountPath: '/data' },
            { name: 'settings', mountPath: '/settings' },
          ],
        },
      ],
      volumes: [
        { name: 'data', emptyDir: {} },
        { name: 'settings', downwardAPI: { items: [{ path: 'a', fieldRef: { fieldPath: 'metadata.name' } }] } },
      ],
    });
    const output = await bench.outputOf(pod('main'));
    const [map = '', ...owners] = output.trim().split('\n');
    const [inside, outside, length] = map.trim().split(/\s+/).map(Number);
    expect({ inside, length, whole: (outside ?? 1) % 65_536 }).toEqual({ inside: 0, length: 65_536, whole: 0 });
    expect(outside).toBeGreaterThan(0);
    expect(owners).toEqual(['0 0', '0 0', '0 0']);
  });
}
