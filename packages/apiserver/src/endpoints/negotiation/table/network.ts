import type { Endpoints, Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Ingress, IngressClass, IPAddress, NetworkPolicy, ServiceCIDR } from '@oarlock/api/types/networking-v1';
import { ageOf, joinFirst, labelsText, nameOf, none, selectorText, unset } from './cells.ts';
import { columnsOf, type Printer } from './printer.ts';

const hostPort = (host: string, port: number) => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);

interface Balancer {
  readonly ingress?: readonly { readonly ip?: string; readonly hostname?: string }[];
}
const addresses = (balancer: Balancer | undefined): readonly string[] => [
  ...new Set((balancer?.ingress ?? []).map(({ ip, hostname }) => ip || hostname || '').filter((text) => text !== '')),
];

function externalAddress({ spec, status }: Service): string {
  const externalIPs = spec?.externalIPs ?? [];
  switch (spec?.type) {
    case 'ClusterIP':
    case 'NodePort':
      return externalIPs.join(',') || none;
    case 'LoadBalancer':
      return [...addresses(status?.loadBalancer), ...externalIPs].join(',') || '<pending>';
    case 'ExternalName':
      return spec.externalName ?? '';
    default:
      return '<unknown>';
  }
}

export const servicePrinter: Printer<Service> = {
  columns: columnsOf(
    'Name',
    { name: 'Type', description: 'How the service is exposed.' },
    { name: 'Cluster-IP', description: 'The cluster IP of the service.' },
    { name: 'External-IP', description: 'The external addresses of the service.' },
    { name: 'Port(s)', description: 'The ports with node ports and protocols.' },
    'Age',
    { name: 'Selector', wide: true, description: 'The labels of the pods that the service selects.' },
  ),
  cells(service, now) {
    const { spec } = service;
    const ports = (spec?.ports ?? [])
      .map(({ port, nodePort, protocol }) => `${port}${nodePort ? `:${nodePort}` : ''}/${protocol ?? 'TCP'}`)
      .join(',');
    return [
      nameOf(service),
      spec?.type ?? '',
      spec?.clusterIPs?.[0] ?? (spec?.clusterIP || none),
      externalAddress(service),
      ports || none,
      ageOf(service, now),
      labelsText(spec?.selector),
    ];
  },
};

export const endpointsPrinter: Printer<Endpoints> = {
  columns: columnsOf('Name', { name: 'Endpoints', description: 'The ready addresses.' }, 'Age'),
  cells(object, now) {
    const list = (object.subsets ?? []).flatMap(({ ports, addresses: ready = [] }) =>
      ports === undefined || ports.length === 0
        ? ready.map(({ ip }) => ip)
        : ports.flatMap(({ port }) => ready.map(({ ip }) => hostPort(ip, port))),
    );
    return [nameOf(object), joinFirst(list, none), ageOf(object, now)];
  },
};

export const endpointSlicePrinter: Printer<EndpointSlice> = {
  columns: columnsOf(
    'Name',
    { name: 'AddressType', description: 'The address family of the endpoints.' },
    { name: 'Ports', description: 'The ports of each endpoint.' },
    { name: 'Endpoints', description: 'The addresses of the endpoints.' },
    'Age',
  ),
  cells: (object, now) => [
    nameOf(object),
    object.addressType ?? '',
    joinFirst(
      (object.ports ?? []).map(({ port, name }) => (port === undefined ? (name ?? '*') : String(port))),
      unset,
    ),
    joinFirst(
      (object.endpoints ?? []).flatMap((endpoint) => endpoint.addresses),
      unset,
    ),
    ageOf(object, now),
  ],
};

export const ingressPrinter: Printer<Ingress> = {
  columns: columnsOf(
    'Name',
    { name: 'Class', description: 'The ingress class.' },
    { name: 'Hosts', description: 'The hosts of the rules.' },
    { name: 'Address', description: 'The addresses of the load balancer.' },
    { name: 'Ports', description: 'The ports of the ingress.' },
    'Age',
  ),
  cells(object, now) {
    const { spec, status } = object;
    const rules = spec?.rules ?? [];
    const hosts = rules
      .slice(0, 3)
      .map(({ host }) => host ?? '')
      .filter((host) => host !== '');
    const hostsText = hosts.length === 0 ? '*' : `${hosts.join(',')}${rules.length > 3 ? ` + ${rules.length - 3} more...` : ''}`;
    return [
      nameOf(object),
      spec?.ingressClassName ?? none,
      hostsText,
      addresses(status?.loadBalancer).join(','),
      (spec?.tls?.length ?? 0) > 0 ? '80, 443' : '80',
      ageOf(object, now),
    ];
  },
};

export const ingressClassPrinter: Printer<IngressClass> = {
  columns: columnsOf(
    'Name',
    { name: 'Controller', description: 'The controller that implements the class.' },
    { name: 'Parameters', description: 'The object with the parameters of the class.' },
    'Age',
  ),
  cells(object, now) {
    const { parameters, controller } = object.spec ?? {};
    const isDefault = object.metadata?.annotations?.['ingressclass.kubernetes.io/is-default-class'] === 'true';
    return [
      isDefault ? `${nameOf(object)} (default)` : nameOf(object),
      controller ?? '',
      parameters === undefined ? none : `${parameters.kind}${parameters.apiGroup ? `.${parameters.apiGroup}` : ''}/${parameters.name}`,
      ageOf(object, now),
    ];
  },
};

export const networkPolicyPrinter: Printer<NetworkPolicy> = {
  columns: columnsOf('Name', { name: 'Pod-Selector', description: 'The pods that the policy applies to.' }, 'Age'),
  cells: (object, now) => [nameOf(object), selectorText(object.spec?.podSelector), ageOf(object, now)],
};

export const ipAddressPrinter: Printer<IPAddress> = {
  columns: columnsOf('Name', { name: 'ParentRef', description: 'The object that the address is allocated to.' }),
  cells(object) {
    const parent = object.spec?.parentRef;
    const parts =
      parent === undefined
        ? []
        : [parent.resource, parent.group, parent.namespace, parent.name].filter((part) => part !== undefined && part !== '');
    return [
      nameOf(object),
      parts.length === 0
        ? none
        : `${[parent?.resource, parent?.group].filter(Boolean).join('.')}/${[parent?.namespace, parent?.name].filter(Boolean).join('/')}`,
    ];
  },
};

export const serviceCidrPrinter: Printer<ServiceCIDR> = {
  columns: columnsOf('Name', { name: 'CIDRs', description: 'The CIDRs of the range.' }, 'Age'),
  cells: (object, now) => [nameOf(object), (object.spec?.cidrs ?? []).join(','), ageOf(object, now)],
};
