import type { PeerPod, Protocol } from './peer-pod.ts';

/** A port as users write it: a number or the name of a container port, and a protocol. */
export interface TrafficPort {
  readonly port: string;
  readonly protocol: Protocol;
}

const protocols: readonly string[] = ['TCP', 'UDP', 'SCTP'] satisfies readonly Protocol[];

/** Parses `80`, `80/udp` or `http`. @throws RangeError for an unknown protocol or a number that is not a port */
export function parseTrafficPort(text: string): TrafficPort {
  const [port = '', protocolText = 'tcp'] = text.split('/');
  const protocol = protocolText.toUpperCase();
  if (!protocols.includes(protocol))
    throw new RangeError(`${JSON.stringify(text)}: the protocol must be tcp, udp or sctp, not ${protocolText}`);
  if (port === '' || (/^\d+$/.test(port) && (Number(port) < 1 || Number(port) > 65_535)))
    throw new RangeError(
      `${JSON.stringify(text)}: the port must be a number from 1 to 65535 or the name of a container port of the destination`,
    );
  return { port, protocol: protocol as Protocol };
}

/** Returns the number of a port at its destination; undefined if the destination has no container port of this name. */
export function portNumberOf({ port, protocol }: TrafficPort, destination: PeerPod | undefined): number | undefined {
  if (/^\d+$/.test(port)) return Number(port);
  return destination?.ports.find((containerPort) => containerPort.name === port && containerPort.protocol === protocol)?.port;
}
