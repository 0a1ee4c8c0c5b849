import { isObject, own } from '../json.ts';
import { podLevelResources, requestsFromLimits, resourceLists } from './resources.ts';
import { at, chain, defaults, each, objectAt, textAt, when, withField, zeroDefaults, type Rule } from './rule.ts';

/** `Always` for images without a tag and for `latest`; a digest is as good as a tag. */
function pullPolicy(image: string): string {
  if (image.includes('@')) return 'IfNotPresent';
  const name = image.slice(image.lastIndexOf('/') + 1);
  const tag = name.includes(':') ? name.slice(name.lastIndexOf(':') + 1) : image === '' ? '' : 'latest';
  return tag === 'latest' ? 'Always' : 'IfNotPresent';
}

const httpGet = at('httpGet', defaults({ path: '/', scheme: 'HTTP' }));
const handler = chain(httpGet, at('grpc', defaults({ service: '' })));
const probe = chain(zeroDefaults({ timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 }), handler);
const fieldRef = at('fieldRef', defaults({ apiVersion: 'v1' }));

const containerOf = (...more: readonly Rule[]): Rule =>
  chain(
    defaults({
      imagePullPolicy: (container) => pullPolicy(textAt(container, 'image')),
      terminationMessagePath: '/dev/termination-log',
      terminationMessagePolicy: 'File',
      // Go shows it even when it is empty, and clients in Go send it back: a template would differ from itself
      resources: {},
    }),
    each('ports', defaults({ protocol: 'TCP' })),
    each('env', at('valueFrom', fieldRef)),
    at('resources', resourceLists('limits', 'requests')),
    at('livenessProbe', probe),
    at('readinessProbe', probe),
    at('startupProbe', probe),
    at('lifecycle', chain(at('postStart', handler), at('preStop', handler))),
    ...more,
  );
const container = containerOf();

const downwardItems = each('items', fieldRef);
const projected = chain(
  defaults({ defaultMode: 0o644 }),
  each('sources', chain(at('downwardAPI', downwardItems), at('serviceAccountToken', defaults({ expirationSeconds: 3600 })))),
);
export const claimSpec: Rule = chain(defaults({ volumeMode: 'Filesystem' }), at('resources', resourceLists('limits', 'requests')));
/** Defaults of the sources that volumes of pods and PersistentVolumes share. */
export const sharedSources: Rule = chain(
  at('hostPath', defaults({ type: '' })),
  at('iscsi', defaults({ iscsiInterface: 'default' })),
  at('rbd', defaults({ pool: 'rbd', user: 'admin', keyring: '/etc/ceph/keyring' })),
  at('azureDisk', defaults({ cachingMode: 'ReadWrite', fsType: 'ext4', readOnly: false, kind: 'Shared' })),
  at('scaleIO', defaults({ storageMode: 'ThinProvisioned', fsType: 'xfs' })),
);
const volume = chain(
  // A volume that names no source is an emptyDir.
  (value) => (Object.keys(value).some((key) => key !== 'name') ? value : { ...value, emptyDir: {} }),
  sharedSources,
  at('secret', defaults({ defaultMode: 0o644 })),
  at('configMap', defaults({ defaultMode: 0o644 })),
  at('downwardAPI', chain(defaults({ defaultMode: 0o644 }), downwardItems)),
  at('projected', projected),
  at('image', defaults({ pullPolicy: (value) => pullPolicy(textAt(value, 'reference')) })),
  at('ephemeral', at('volumeClaimTemplate', at('spec', claimSpec))),
);

/** `serviceAccount` is the old name of `serviceAccountName`; both are shown. */
const serviceAccountNames: Rule = (spec) => {
  const name = textAt(spec, 'serviceAccountName') || textAt(spec, 'serviceAccount');
  return name === '' ? spec : withField(withField(spec, 'serviceAccountName', name), 'serviceAccount', name);
};

/** What every pod spec gets, in pods and in templates alike. */
export const podSpec: Rule = chain(
  defaults({
    dnsPolicy: 'ClusterFirst',
    restartPolicy: 'Always',
    securityContext: {},
    terminationGracePeriodSeconds: 30,
    schedulerName: 'default-scheduler',
  }),
  serviceAccountNames,
  each('volumes', volume),
  each('initContainers', container),
  each('containers', container),
  each('ephemeralContainers', container),
  at('resources', resourceLists('limits', 'requests')),
  resourceLists('overhead'),
);
export const podTemplate: Rule = (template) => {
  const spec = own(template, 'spec');
  return withField(template, 'spec', podSpec(isObject(spec) ? spec : {}));
};

const hostPorts = each('ports', (port) => {
  const containerPort = own(port, 'containerPort');
  return (own(port, 'hostPort') ?? 0) === 0 && typeof containerPort === 'number' && containerPort !== 0
    ? { ...port, hostPort: containerPort }
    : port;
});
const hostNetwork = when(
  (spec) => own(spec, 'hostNetwork') === true,
  chain(each('containers', hostPorts), each('initContainers', hostPorts)),
);

/** The single address and the list of addresses say the same; the single one wins. */
export const syncAddresses =
  (single: string, list: string, wrap: (address: string) => unknown, unwrap: (item: unknown) => unknown): Rule =>
  (value) => {
    const address = textAt(value, single);
    const items = own(value, list);
    const first: unknown = Array.isArray(items) ? unwrap(items[0]) : undefined;
    if (address !== '' && first !== address) return { ...value, [list]: [wrap(address)] };
    return address === '' && typeof first === 'string' ? { ...value, [single]: first } : value;
  };
const podIps = syncAddresses(
  'podIP',
  'podIPs',
  (ip) => ({ ip }),
  (item) => (isObject(item) ? item['ip'] : undefined),
);

const podStatus = chain(
  podIps,
  ...['initContainerStatuses', 'containerStatuses', 'ephemeralContainerStatuses'].map((key) =>
    each(key, chain(resourceLists('allocatedResources'), at('resources', resourceLists('limits', 'requests')))),
  ),
);

export const pod: Rule = chain(
  (value) =>
    withField(
      value,
      'spec',
      chain(
        podSpec,
        each('containers', requestsFromLimits),
        each('initContainers', requestsFromLimits),
        podLevelResources,
        defaults({ enableServiceLinks: true }),
        hostNetwork,
      )(objectAt(value, 'spec')),
    ),
  at('status', podStatus),
);

/** Labels of the template, for objects that carry none of their own. */
export const labelsFromTemplate: Rule = (value) => {
  const labels = objectAt(objectAt(objectAt(objectAt(value, 'spec'), 'template'), 'metadata'), 'labels');
  const metadata = objectAt(value, 'metadata');
  if (Object.keys(labels).length === 0 || Object.keys(objectAt(metadata, 'labels')).length > 0) return value;
  return { ...value, metadata: { ...metadata, labels } };
};
