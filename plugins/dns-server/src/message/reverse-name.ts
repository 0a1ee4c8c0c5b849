import { isIPv6 } from 'node:net';

/** Returns the address of a name in `in-addr.arpa` or `ip6.arpa` (RFC 1035 3.5, RFC 3596 2.5); undefined for other names. */
export function addressOfReverse(name: string): string | undefined {
  const v4 = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.in-addr\.arpa$/.exec(name);
  if (v4 !== null) return [v4[4], v4[3], v4[2], v4[1]].join('.');
  if (!/^(?:[0-9a-f]\.){32}ip6\.arpa$/.test(name)) return undefined;
  const digits = name.slice(0, 63).split('.').reverse().join('');
  return shortest((digits.match(/.{4}/g) ?? []).join(':'));
}

/** Returns the canonical form of an address (RFC 5952), which lookups use as the key. */
export function shortest(address: string): string {
  return isIPv6(address) ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address;
}
