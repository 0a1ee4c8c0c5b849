import { decode, type DecodedPacket, type OptAnswer } from 'dns-packet';

/** The response codes of RFC 1035, 4.1.1. */
export const rcodes = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 } as const;
/** The maximum size of a UDP response, which fits any path without fragmentation (DNS flag day 2020). Bytes. */
export const largestDatagram = 1232;
export const truncated = 0x0200;
export const dnssecWanted = 0x8000;

export const rcodeOf = ({ flags = 0 }: DecodedPacket): number => flags & 0xf;

/**
 * Returns a name with ASCII letters in lower case, as DNS compares names (RFC 4343). Other characters stay: `toLowerCase` turns the Kelvin sign into a k,
 * so that the response to one name would be that of another.
 */
export const lowerCaseName = (name: string): string => name.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());

/** Decodes a DNS message. Returns undefined if the message is invalid. */
export function decodeMessage(message: Buffer): DecodedPacket | undefined {
  try {
    return decode(message);
  } catch {
    return undefined;
  }
}

/** Returns the OPT pseudo-record of EDNS (RFC 6891); undefined if the message has none. */
export function optOf(packet: DecodedPacket): OptAnswer | undefined {
  return (packet.additionals ?? []).find((record): record is OptAnswer => record.type === 'OPT');
}

export function opt(dnssec: boolean): OptAnswer {
  return {
    type: 'OPT',
    name: '.',
    udpPayloadSize: largestDatagram,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: dnssec ? dnssecWanted : 0,
    flag_do: dnssec,
    options: [],
  };
}
