import { formatCIDR, parseCIDRSloppy } from '../../../net/cidr.ts';
import { formatIPNumber } from '../../../net/ip-number.ts';
import { parseIPSloppy } from '../../../net/sloppy-ip.ts';

/** Returns the warning about an address in a non-standard notation (validation.GetWarningsForIP); empty for text that is not an address. */
export function addressWarnings(path: string, text: string): readonly string[] {
  const address = parseIPSloppy(text);
  if (address === undefined) return [];
  const { hasLeadingZeros, isMapped, isIPv6, canonical } = address;
  if (hasLeadingZeros || isMapped)
    return [
      `${path}: non-standard IP address ${JSON.stringify(text)} will be considered invalid in a future Kubernetes release: use ${JSON.stringify(canonical)}`,
    ];
  if (isIPv6 && canonical !== text)
    return [`${path}: IPv6 address ${JSON.stringify(text)} should be in RFC 5952 canonical format (${JSON.stringify(canonical)})`];
  return [];
}

/** Returns the warnings about a CIDR in a non-standard notation (validation.GetWarningsForCIDR); empty for text that is not a CIDR. */
export function cidrWarnings(path: string, text: string): readonly string[] {
  const cidr = parseCIDRSloppy(text);
  if (cidr === undefined) return [];
  const warnings: string[] = [];
  const canonical = formatCIDR(cidr);
  if (cidr.address !== cidr.first) {
    const single = `${formatIPNumber(cidr.address, cidr.family)}/${cidr.family === 'IPv4' && !text.includes(':') ? 32 : 128}`;
    warnings.push(
      `${path}: CIDR value ${JSON.stringify(text)} is ambiguous in this context (should be ${JSON.stringify(canonical)} or ${JSON.stringify(single)}?)`,
    );
  }
  const slash = text.indexOf('/');
  const address = parseIPSloppy(text.slice(0, slash));
  if (address?.hasLeadingZeros === true || address?.isMapped === true || /^0\d/.test(text.slice(slash + 1)))
    warnings.push(
      `${path}: non-standard CIDR value ${JSON.stringify(text)} will be considered invalid in a future Kubernetes release: use ${JSON.stringify(canonical)}`,
    );
  if (warnings.length === 0 && address?.isIPv6 === true && canonical !== text)
    warnings.push(`${path}: IPv6 CIDR value ${JSON.stringify(text)} should be in RFC 5952 canonical format (${JSON.stringify(canonical)})`);
  return warnings;
}
