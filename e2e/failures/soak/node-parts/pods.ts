import { busyboxImage } from '../../../fixtures/test-image.ts';

const idle = 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done';
const serve = 'mkdir -p /tmp/www && echo here > /tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www';
const shell = (script: string) => ({ image: busyboxImage, command: ['sh', '-c', script] });

type Chooser = {
  readonly int: (from: number, to: number) => number;
  readonly chance: (part: number) => boolean;
  readonly pick: <T>(...list: readonly T[]) => T;
};
interface Volume {
  readonly volume: object;
  readonly mount?: object;
  readonly device?: object;
}

/** Each kind of volume; the creator of the pod creates the claims. */
const volumes: Readonly<Record<string, (pod: string) => Volume>> = {
  disk: () => ({ volume: { emptyDir: {} } }),
  memory: () => ({ volume: { emptyDir: { medium: 'Memory', sizeLimit: '4Mi' } } }),
  config: () => ({ volume: { configMap: { name: 'settings' } } }),
  file: () => ({ volume: { configMap: { name: 'settings' } }, mount: { mountPath: '/etc/one', subPath: 'one' } }),
  secret: () => ({ volume: { secret: { secretName: 'secrets', defaultMode: 256 } } }),
  downward: () => ({ volume: { downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] } } }),
  projected: () => ({
    volume: {
      projected: {
        sources: [
          { configMap: { name: 'settings' } },
          { secret: { name: 'secrets' } },
          { serviceAccountToken: { path: 'token', expirationSeconds: 600 } },
        ],
      },
    },
  }),
  part: () => ({ volume: { emptyDir: {} }, mount: { subPathExpr: '$(POD)/deep' } }),
  claim: (pod) => ({ volume: { persistentVolumeClaim: { claimName: `${pod}-claim` } } }),
  block: (pod) => ({ volume: { persistentVolumeClaim: { claimName: `${pod}-block` } }, device: { devicePath: '/dev/block' } }),
  ephemeral: () => ({
    volume: {
      ephemeral: { volumeClaimTemplate: { spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } } } },
    },
  }),
};

const probes = ({ int, pick }: Chooser) => {
  const how = pick<object>({ httpGet: { port: 8080, path: '/' } }, { tcpSocket: { port: 8080 } }, { exec: { command: ['true'] } });
  const timing = { periodSeconds: int(1, 3), timeoutSeconds: 5, failureThreshold: 10 };
  return {
    readinessProbe: { ...how, ...timing },
    ...(int(0, 2) === 0 && { livenessProbe: { ...how, ...timing, initialDelaySeconds: 2 } }),
    ...(int(0, 3) === 0 && { startupProbe: { ...how, ...timing } }),
  };
};

/** A pod that keeps running unless `ends`. */
export function churnPod(name: string, chooser: Chooser): { readonly pod: object; readonly claims: readonly object[] } {
  const { int, chance, pick } = chooser;
  const used = Object.keys(volumes).filter(() => chance(0.3));
  const podVolumes = used.map((kind) => ({ kind, ...(volumes[kind]?.(name) ?? { volume: {} }) }));
  const mounts = podVolumes
    .filter(({ device }) => device === undefined)
    .map(({ kind, mount }) => ({ name: kind, mountPath: `/volumes/${kind}`, ...mount }));
  const devices = podVolumes.filter(({ device }) => device !== undefined).map(({ kind, device }) => ({ name: kind, ...device }));
  const ends = chance(0.25);
  const main = ends
    ? shell(pick('exit 0', 'sleep 2', 'exit 3', 'sleep 1; exit 1'))
    : { ...shell(chance(0.15) ? 'trap "" TERM; while :; do sleep 1; done' : serve), ...(chance(0.4) && probes(chooser)) };
  const lifecycle = {
    ...(chance(0.3) && { postStart: pick({ exec: { command: ['true'] } }, { sleep: { seconds: 1 } }) }),
    ...(chance(0.3) && { preStop: pick({ exec: { command: ['sleep', '1'] } }, { sleep: { seconds: 1 } }) }),
  };
  const claim = (kind: string, volumeMode: string) => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: `${name}-${kind}` },
    spec: { accessModes: ['ReadWriteOnce'], volumeMode, resources: { requests: { storage: '1Mi' } } },
  });
  const claims = [
    ...(used.includes('claim') ? [claim('claim', 'Filesystem')] : []),
    ...(used.includes('block') ? [claim('block', 'Block')] : []),
  ];
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { app: 'churn', part: pick('a', 'b', 'c') } },
    spec: {
      terminationGracePeriodSeconds: int(2, 5),
      restartPolicy: ends ? pick('Never', 'OnFailure', 'Always') : 'Always',
      ...(chance(0.2) && { hostNetwork: false, securityContext: { fsGroup: 2000 } }),
      ...(chance(0.1) && { shareProcessNamespace: true }),
      ...(chance(0.35) && {
        initContainers: [
          ...(chance(0.7) ? [{ name: 'first', ...shell(pick('true', 'sleep 1')), volumeMounts: mounts }] : []),
          ...(chance(0.6) ? [{ name: 'beside', restartPolicy: 'Always', ...shell(idle), volumeMounts: mounts }] : []),
        ],
      }),
      containers: [
        {
          name: 'main',
          ...main,
          env: [{ name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
          volumeMounts: mounts,
          ...(devices.length > 0 && { volumeDevices: devices }),
          ...(Object.keys(lifecycle).length > 0 && !ends && { lifecycle }),
          ports: [{ name: 'http', containerPort: 8080, ...(chance(0.2) && { hostPort: int(18_080, 18_084) }) }],
          resources: pick<object>({}, { requests: { cpu: '10m', memory: '8Mi' } }, { limits: { cpu: '100m', memory: '64Mi' } }),
        },
        ...(chance(0.3) ? [{ name: 'second', ...shell(idle) }] : []),
      ],
      volumes: podVolumes.map(({ kind, volume }) => ({ name: kind, ...volume })),
    },
  };
  return { pod, claims };
}

/** A pod that must not be disturbed. */
export const steadyPod = (name: string, more: object = {}, container: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { app: 'steady', name } },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'main', ...shell(serve), ports: [{ name: 'http', containerPort: 8080 }], ...container }],
    ...more,
  },
});

export const service = (name: string, part: string, type: string) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name },
  spec: { type, selector: { app: 'churn', part }, ports: [{ port: 80, targetPort: 'http' }] },
});
export const policy = (name: string, part: string, { pick, int }: Chooser) => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name },
  spec: {
    podSelector: { matchLabels: { part } },
    policyTypes: pick(['Ingress'], ['Egress'], ['Ingress', 'Egress']),
    ingress: [
      {
        from: pick<readonly object[]>(
          [{ podSelector: { matchLabels: { part: 'b' } } }],
          [{ namespaceSelector: {} }],
          [{ ipBlock: { cidr: `10.${int(1, 9)}.0.0/16` } }],
        ),
        ports: [{ port: pick<string | number>('http', 8080), protocol: 'TCP' }],
      },
    ],
  },
});
