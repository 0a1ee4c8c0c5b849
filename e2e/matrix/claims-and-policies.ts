import { mustRun } from '../harness/programs.ts';
import { until, untilValue } from '../harness/until.ts';
import type { MatrixApplication } from './application.ts';

/** A policy that denies all ingress to pods with the label. */
const closed = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'closed' },
  spec: { podSelector: { matchLabels: { closed: 'yes' } }, policyTypes: ['Ingress'] },
};

const claim = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'kept' },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '8Mi' } } },
};

/** A pod that writes its name into the claim. */
const writerPod = (name: string, image: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { app: name } },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [
      {
        name: 'main',
        image,
        command: ['sh', '-c', `echo ${name} >> /data/said; exec sleep 3600`],
        volumeMounts: [{ name: 'data', mountPath: '/data' }],
      },
    ],
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'kept' } }],
  },
});

/** Asserts that the bridge accepts packets of each pod from the address of that pod only, whoever attached the pod. */
export async function sourcesAreBound(stage: MatrixApplication): Promise<void> {
  const bound = await mustRun('nft', ['list', 'set', 'bridge', `oarlock-${stage.bridge}`, 'own4']);
  const addresses = new Set(Array.from(bound.matchAll(/"veth[0-9a-f]+" \. \S+ \. ([\d.]+)/g), ([, address]) => address));
  const unbound = (await stage.pods()).filter(({ status }) => !addresses.has(status.podIP));
  if (unbound.length > 0) throw new Error(`no rule for ${unbound.map(({ status }) => status.podIP).join(', ')} in ${bound}`);
}

/** Asserts that a policy makes a pod unreachable, and that its deletion makes it reachable again. */
export async function policyHolds(stage: MatrixApplication): Promise<void> {
  const [one, other] = await stage.ready(2);
  if (!one || !other) throw new Error('fewer than two pods exist');
  const reaches = () => stage.reaches(one, `http://${other.status.podIP}:8080/`);
  await until('the pod is reachable', reaches);
  await stage.k('label', '--overwrite', 'pod', other.metadata.name, 'closed=yes');
  await stage.cluster.kubectl.apply(closed, { namespace: stage.namespace });
  await until('the pod is unreachable', async () => !(await reaches()));
  await stage.k('delete', 'networkpolicy', 'closed');
  await until('the pod is reachable again', reaches);
}

/** Asserts that the second pod reads what the first has written, and that the volume is deleted with its claim. */
export async function claimKeeps(stage: MatrixApplication): Promise<void> {
  const image = await stage.image();
  await stage.cluster.kubectl.apply([claim, writerPod('writer', image)], { namespace: stage.namespace });
  await stage.cluster.api.untilReady(stage.namespace, 'writer', 1);
  await stage.k('delete', 'pod', 'writer');
  await stage.cluster.kubectl.apply(writerPod('reader', image), { namespace: stage.namespace });
  await stage.cluster.api.untilReady(stage.namespace, 'reader', 1);
  await untilValue(
    'the data that was kept',
    () => stage.k('exec', 'reader', '--', 'sh', '-c', 'cat /data/said'),
    (output) => output === 'writer\nreader\n',
  );
  await stage.k('delete', 'pod/reader', 'pvc/kept');
  await stage.cluster.api.until('the volume is gone', '/api/v1/persistentvolumes', (volumes) => volumes.length === 0);
}
