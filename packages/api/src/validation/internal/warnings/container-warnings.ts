import type { Container, ContainerPort, EnvVar, EphemeralContainer, PodSpec } from '../../../generated/types/core-v1.ts';
import type { Quantity } from '../../../generated/types/meta-v1.ts';
import { parseQuantity } from '../../../values/quantity.ts';

/** A container and its path, `spec.containers[0]`. */
export interface VisitedContainer {
  readonly path: string;
  readonly container: Container | EphemeralContainer;
}

/** Returns the containers in the order in which upstream visits them: init, main, ephemeral. */
export function containersOf(path: string, spec: PodSpec): readonly VisitedContainer[] {
  const visited: VisitedContainer[] = [];
  for (const list of ['initContainers', 'containers', 'ephemeralContainers'] as const)
    for (const [i, container] of (spec[list] ?? []).entries()) visited.push({ path: `${path}.${list}[${i}]`, container });
  return visited;
}

/** Returns the warning about a size in bytes that is not an integer; empty if `quantity` is absent. */
export function fractionalBytesWarnings(path: string, quantity: Quantity | undefined): readonly string[] {
  if (quantity === undefined) return [];
  const parsed = parseQuantity(quantity);
  return parsed.isInteger ? [] : [`${path}: fractional byte value ${JSON.stringify(parsed.toString())} is invalid, must be an integer`];
}

/** Returns the warnings about the resources of a list that are measured in bytes. */
export function byteResourceWarnings(path: string, list: Readonly<Record<string, Quantity>> | undefined): readonly string[] {
  if (list === undefined) return [];
  return [
    ...fractionalBytesWarnings(`${path}[memory]`, list['memory']),
    ...fractionalBytesWarnings(`${path}[ephemeral-storage]`, list['ephemeral-storage']),
  ];
}

/** Returns the warnings about variables that hide another one of the same name. A value that refers to the hidden one is intended. */
export function envWarnings(path: string, variables: readonly EnvVar[]): readonly string[] {
  if (variables.length < 2) return [];
  const names = new Set<string>();
  const warnings: string[] = [];
  for (const [i, { name = '', value = '', valueFrom }] of variables.entries()) {
    const reference = `$(${name})`;
    if (names.has(name) && (valueFrom !== undefined || value === reference || !value.includes(reference)))
      warnings.push(`${path}[${i}]: hides previous definition of ${JSON.stringify(name)}, which may be dropped when using apply`);
    names.add(name);
  }
  return warnings;
}

interface PortEntry {
  readonly path: string;
  readonly port: ContainerPort;
}

/** The maximum number of ports with the same number and protocol that are compared with each other. */
const maxSamePorts = 100;

/** Returns the warnings about container ports that conflict with each other. */
export function portWarnings(containers: readonly VisitedContainer[]): readonly string[] {
  const ports: PortEntry[] = containers.flatMap(({ path, container }) =>
    (container.ports ?? []).map((port, i) => ({ path: `${path}.ports[${i}]`, port })),
  );
  if (ports.length === 0) return [];
  const warnings: string[] = [];
  const sameNumber = new Map<string, PortEntry[]>();
  for (const entry of ports) {
    const { path, port } = entry;
    if ((port.hostIP ?? '') !== '' && (port.hostPort ?? 0) === 0)
      warnings.push(`${path}: hostIP set without hostPort: ${formatPort(port)}`);
    const key = `${port.containerPort}/${port.protocol}`;
    const others = sameNumber.get(key) ?? [];
    for (const other of others) {
      const conflict = portConflict(port, other.port);
      if (conflict !== undefined) warnings.push(`${path}: ${conflict} port definition with ${other.path}`);
    }
    if (others.length < maxSamePorts) sameNumber.set(key, [...others, entry]);
  }
  return [...warnings, ...portNameWarnings(ports)];
}

function portConflict(a: ContainerPort, b: ContainerPort): 'duplicate' | 'overlapping' | 'dangerously ambiguous' | undefined {
  const [ip, otherIP] = [a.hostIP ?? '', b.hostIP ?? ''];
  const [port, otherPort] = [a.hostPort ?? 0, b.hostPort ?? 0];
  if (ip === otherIP && port === otherPort) return 'duplicate';
  if (port === 0 || otherPort === 0) return 'overlapping';
  return port === otherPort && (ip === '') !== (otherIP === '') ? 'dangerously ambiguous' : undefined;
}

/** Formats a port as Go's %+v formats the internal type. */
const formatPort = ({ name = '', hostPort = 0, containerPort, protocol = '', hostIP = '' }: ContainerPort) =>
  `{Name:${name} HostPort:${hostPort} ContainerPort:${containerPort} Protocol:${protocol} HostIP:${hostIP}}`;

function portNameWarnings(ports: readonly PortEntry[]): readonly string[] {
  const paths = new Map<string, string>();
  const warnings: string[] = [];
  for (const { path, port } of ports) {
    if (!port.name) continue;
    const other = paths.get(port.name);
    if (other === undefined) paths.set(port.name, path);
    else
      warnings.push(
        `${path}: duplicate port name ${JSON.stringify(port.name)} with ${other}, services and probes that select ports by name will use ${other}`,
      );
  }
  return warnings;
}
