import { execFileSync } from 'node:child_process';
import { parseIPNumber } from '@oarlock/api/net/ip-number';

/** Sends a frame as a program with NET_RAW does. Perl is part of every Debian, and Node.js has no packet sockets. */
const program = `
  my ($name, $frame) = @ARGV;
  socket(my $socket, 17, 3, 0) or die "socket: $!";
  my $request = pack('a16 i x20', $name, 0);
  ioctl($socket, 0x8933, $request) or die "SIOCGIFINDEX: $!";
  my (undef, $index) = unpack('a16 i', $request);
  send($socket, pack('H*', $frame), 0, pack('S n i S C C a8', 17, 0, $index, 0, 0, 6, '')) or die "send: $!";`;

/** Sends a frame from `eth0` of a network namespace. */
export function sendFrame(netns: string, frame: Buffer): void {
  execFileSync('nsenter', [`--net=${netns}`, 'perl', '-e', program, 'eth0', frame.toString('hex')]);
}

const mac = (text: string) => Buffer.from(text.replaceAll(':', ''), 'hex');
const ip = (text: string) => Buffer.from((parseIPNumber(text) ?? 0n).toString(16).padStart(text.includes(':') ? 32 : 8, '0'), 'hex');

export interface Claim {
  /** The link address that sends the frame, and that claims the address. */
  readonly link: string;
  /** The address that the frame claims. */
  readonly address: string;
  readonly to: { readonly link: string; readonly address: string };
}

/** Returns an ARP reply (RFC 826). */
export function arpReply({ link, address, to }: Claim): Buffer {
  const head = Buffer.from('0001080006040002', 'hex'); // Ethernet, IPv4, lengths, reply
  return Buffer.concat([mac(to.link), mac(link), Buffer.from('0806', 'hex'), head, mac(link), ip(address), mac(to.link), ip(to.address)]);
}

/** Returns a neighbor advertisement with the flags Solicited and Override (RFC 4861, section 4.4). */
export function neighborAdvertisement({ link, address, to }: Claim, source: string): Buffer {
  const message = Buffer.concat([Buffer.from('8800000060000000', 'hex'), ip(address), Buffer.from('0201', 'hex'), mac(link)]);
  return icmpv6Frame({ link, source, to, message });
}

/** Returns a router advertisement to all nodes that offers a default route for half an hour (RFC 4861, section 4.2). */
export function routerAdvertisement(link: string, source: string): Buffer {
  const message = Buffer.concat([Buffer.from('86000000400007080000000000000000', 'hex'), Buffer.from('0101', 'hex'), mac(link)]);
  return icmpv6Frame({ link, source, to: { link: '33:33:00:00:00:01', address: 'ff02::1' }, message });
}

export interface Datagram {
  /** The link address, address and port that send the datagram. */
  readonly from: { readonly link: string; readonly address: string; readonly port: number };
  readonly to: { readonly link: string; readonly address: string; readonly port: number };
  readonly text: string;
  /** The identifier of a VLAN tag (IEEE 802.1Q), 0 for a priority tag; undefined for no tag. */
  readonly vlan?: number;
}

/** Returns a UDP datagram over IPv4 or IPv6 with a valid checksum. */
export function datagram({ from, to, text, vlan }: Datagram): Buffer {
  const ports = Buffer.alloc(8);
  ports.writeUInt16BE(from.port, 0);
  ports.writeUInt16BE(to.port, 2);
  const body = Buffer.concat([ports, Buffer.from(text)]);
  body.writeUInt16BE(body.length, 4);
  const addresses = Buffer.concat([ip(from.address), ip(to.address)]);
  const isSix = to.address.includes(':');
  body.writeUInt16BE(transportChecksum(addresses, 17, body), 6);
  const head = isSix ? Buffer.from([0x60, 0, 0, 0, 0, body.length, 17, 64]) : Buffer.from([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0]);
  const packet = Buffer.concat([head, addresses, body]);
  if (!isSix) {
    packet.writeUInt16BE(packet.length, 2);
    packet.writeUInt16BE(checksum(packet.subarray(0, 20)), 10);
  }
  const tag = vlan === undefined ? Buffer.alloc(0) : Buffer.from([0x81, 0, vlan >> 8, vlan & 0xff]);
  return Buffer.concat([mac(to.link), mac(from.link), tag, Buffer.from(isSix ? '86dd' : '0800', 'hex'), packet]);
}

/**
 * Splits the packet of a frame without a VLAN tag into two fragments with this identification; the first has `size` bytes of payload, a multiple of 8
 * (RFC 791 section 3.2, RFC 8200 section 4.5).
 */
export function fragments(frame: Buffer, size: number, identification: number): readonly [Buffer, Buffer] {
  const [link, packet] = [frame.subarray(0, 14), frame.subarray(14)];
  const isSix = link.readUInt16BE(12) === 0x86dd;
  const [head, payload] = isSix ? [packet.subarray(0, 40), packet.subarray(40)] : [packet.subarray(0, 20), packet.subarray(20)];
  const fragment = (from: number, part: Buffer, more: boolean): Buffer => {
    const own = Buffer.from(head);
    if (!isSix) {
      own.writeUInt16BE(own.length + part.length, 2);
      own.writeUInt16BE(identification, 4);
      own.writeUInt16BE((more ? 0x2000 : 0) | (from / 8), 6);
      own.writeUInt16BE(0, 10);
      own.writeUInt16BE(checksum(own), 10);
      return Buffer.concat([link, own, part]);
    }
    const extension = Buffer.alloc(8);
    extension.writeUInt8(head[6] ?? 0, 0);
    extension.writeUInt16BE(from | (more ? 1 : 0), 2);
    extension.writeUInt32BE(identification, 4);
    own.writeUInt16BE(extension.length + part.length, 4);
    own.writeUInt8(44, 6);
    return Buffer.concat([link, own, extension, part]);
  };
  return [fragment(0, payload.subarray(0, size), true), fragment(size, payload.subarray(size), false)];
}

interface Icmpv6 {
  readonly link: string;
  readonly source: string;
  readonly to: Claim['to'];
  readonly message: Buffer;
}
function icmpv6Frame({ link, source, to, message }: Icmpv6): Buffer {
  const addresses = Buffer.concat([ip(source), ip(to.address)]);
  message.writeUInt16BE(transportChecksum(addresses, 58, message), 2);
  const head = Buffer.from([0x60, 0, 0, 0, 0, message.length, 58, 255]);
  return Buffer.concat([mac(to.link), mac(link), Buffer.from('86dd', 'hex'), head, addresses, message]);
}

/** Returns the checksum of a message with the pseudo header of its packet (RFC 768, RFC 8200 section 8.1). */
const transportChecksum = (addresses: Buffer, protocol: number, message: Buffer) =>
  checksum(Buffer.concat([addresses, Buffer.from([0, 0, message.length >> 8, message.length & 0xff, 0, 0, 0, protocol]), message]));

/** Returns the checksum of RFC 1071. */
function checksum(bytes: Buffer): number {
  const even = bytes.length % 2 === 0 ? bytes : Buffer.concat([bytes, Buffer.alloc(1)]);
  let sum = 0;
  for (let at = 0; at < even.length; at += 2) sum += even.readUInt16BE(at);
  while (sum > 0xff_ff) sum = (sum & 0xff_ff) + (sum >>> 16);
  return ~sum & 0xff_ff;
}
