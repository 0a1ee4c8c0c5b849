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
  const addresses = Buffer.concat([ip(source), ip(to.address)]);
  const pseudoHeader = Buffer.concat([addresses, Buffer.from([0, 0, 0, message.length, 0, 0, 0, 58])]);
  message.writeUInt16BE(checksum(Buffer.concat([pseudoHeader, message])), 2);
  const head = Buffer.from([0x60, 0, 0, 0, 0, message.length, 58, 255]);
  return Buffer.concat([mac(to.link), mac(link), Buffer.from('86dd', 'hex'), head, addresses, message]);
}

/** Returns the checksum of RFC 1071. */
function checksum(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at);
  while (sum > 0xff_ff) sum = (sum & 0xff_ff) + (sum >>> 16);
  return ~sum & 0xff_ff;
}
