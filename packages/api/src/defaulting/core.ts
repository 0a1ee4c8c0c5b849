import { isObject, own } from '../json.ts';
import { claimSpec, labelsFromTemplate, pod, podTemplate, sharedSources, syncAddresses } from './pod.ts';
import { fill, resourceLists } from './resources.ts';
import { at, chain, defaults, each, is, objectAt, textAt, when, within, withField, type Fields, type Rule } from './rule.ts';

const sessionAffinity: Rule = (spec) => {
  if (spec['sessionAffinity'] === 'None') return withField(spec, 'sessionAffinityConfig', undefined);
  if (spec['sessionAffinity'] !== 'ClientIP') return spec;
  const { timeoutSeconds } = objectAt(objectAt(spec, 'sessionAffinityConfig'), 'clientIP');
  return timeoutSeconds === undefined ? { ...spec, sessionAffinityConfig: { clientIP: { timeoutSeconds: 10800 } } } : spec;
};
const servicePort = chain(defaults({ protocol: 'TCP' }), (port) => {
  const target = own(port, 'targetPort');
  return (target === undefined || target === 0 || target === '') && typeof port['port'] === 'number'
    ? { ...port, targetPort: port['port'] }
    : port;
});
const typeIn = (spec: Fields, ...types: readonly string[]) => types.includes(textAt(spec, 'type'));
const external = (spec: Fields) =>
  typeIn(spec, 'LoadBalancer', 'NodePort') ||
  (typeIn(spec, 'ClusterIP') && Array.isArray(spec['externalIPs']) && spec['externalIPs'].length > 0);

const serviceSpec = chain(
  defaults({ sessionAffinity: 'None' }),
  sessionAffinity,
  defaults({ type: 'ClusterIP' }),
  each('ports', servicePort),
  when(external, defaults({ externalTrafficPolicy: 'Cluster' })),
  when((spec) => typeIn(spec, 'ClusterIP', 'NodePort', 'LoadBalancer'), defaults({ internalTrafficPolicy: 'Cluster' })),
  when(is('type', 'LoadBalancer'), defaults({ allocateLoadBalancerNodePorts: true })),
);
const service = chain(
  within('spec', serviceSpec),
  when(
    (value) => typeIn(objectAt(value, 'spec'), 'LoadBalancer'),
    at(
      'status',
      at(
        'loadBalancer',
        each(
          'ingress',
          when((ingress) => textAt(ingress, 'ip') !== '', defaults({ ipMode: 'VIP' })),
        ),
      ),
    ),
  ),
);

const nameLabel = 'kubernetes.io/metadata.name';
const namespace: Rule = chain(
  (value) => {
    const metadata = objectAt(value, 'metadata');
    const name = textAt(metadata, 'name');
    const labels = objectAt(metadata, 'labels');
    return name === '' || own(labels, nameLabel) === name
      ? value
      : { ...value, metadata: { ...metadata, labels: { ...labels, [nameLabel]: name } } };
  },
  within('status', defaults({ phase: 'Active' })),
);

const node = chain(
  at(
    'spec',
    syncAddresses(
      'podCIDR',
      'podCIDRs',
      (cidr) => cidr,
      (item) => item,
    ),
  ),
  at(
    'status',
    chain(
      (status) =>
        own(status, 'allocatable') === undefined && isObject(own(status, 'capacity'))
          ? { ...status, allocatable: status['capacity'] }
          : status,
      resourceLists('capacity', 'allocatable'),
    ),
  ),
);

/** Default limits from the maximum, default requests from default limits, then from the minimum. */
const limitRangeItem: Rule = chain(
  resourceLists('max', 'min', 'default', 'defaultRequest', 'maxLimitRequestRatio'),
  when(is('type', 'Container'), (item) => {
    const limits = fill(objectAt(item, 'default'), objectAt(item, 'max'));
    const requests = fill(fill(objectAt(item, 'defaultRequest'), limits), objectAt(item, 'min'));
    const set = (value: Fields, key: string, list: Fields) =>
      Object.keys(list).length === 0 || list === own(value, key) ? value : { ...value, [key]: list };
    return set(set(item, 'default', limits), 'defaultRequest', requests);
  }),
);

export const claim: Rule = chain(
  within('spec', claimSpec),
  within('status', chain(defaults({ phase: 'Pending' }), resourceLists('capacity', 'allocatedResources'))),
);
const persistentVolume = chain(
  within('status', defaults({ phase: 'Pending' })),
  within(
    'spec',
    chain(defaults({ persistentVolumeReclaimPolicy: 'Retain', volumeMode: 'Filesystem' }), resourceLists('capacity'), sharedSources),
  ),
);

const replicationController = chain(
  (value) => {
    const spec = objectAt(value, 'spec');
    const labels = objectAt(objectAt(objectAt(spec, 'template'), 'metadata'), 'labels');
    if (Object.keys(labels).length === 0 || Object.keys(objectAt(spec, 'selector')).length > 0) return value;
    return { ...value, spec: { ...spec, selector: labels } };
  },
  labelsFromTemplate,
  within('spec', chain(defaults({ replicas: 1 }), at('template', podTemplate))),
);

/** `stringData` is for writing alone: it goes over into `data`, over what is there. */
const stringData: Rule = (value) => {
  const { stringData: texts, ...rest } = value;
  if (!isObject(texts)) return value;
  const encoded = Object.entries(texts).map(([key, text]) => [key, Buffer.from(String(text)).toString('base64')] as const);
  return { ...rest, data: { ...objectAt(value, 'data'), ...Object.fromEntries(encoded) } };
};

export const coreRules: Readonly<Record<string, Rule>> = {
  'v1/Pod': pod,
  'v1/PodTemplate': (value) => withField(value, 'template', podTemplate(objectAt(value, 'template'))),
  'v1/Service': service,
  'v1/Endpoints': each('subsets', each('ports', defaults({ protocol: 'TCP' }))),
  'v1/Namespace': namespace,
  'v1/Node': node,
  'v1/Secret': chain(stringData, defaults({ type: 'Opaque' })),
  'v1/LimitRange': at('spec', each('limits', limitRangeItem)),
  'v1/ResourceQuota': chain(at('spec', resourceLists('hard')), at('status', resourceLists('hard', 'used'))),
  'v1/PersistentVolumeClaim': claim,
  'v1/PersistentVolume': persistentVolume,
  'v1/ReplicationController': replicationController,
  'discovery.k8s.io/v1/EndpointSlice': each('ports', defaults({ name: '', protocol: 'TCP' })),
};
