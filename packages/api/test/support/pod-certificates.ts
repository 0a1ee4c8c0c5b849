/** The certificate of an authority with an Ed25519 key, valid for a hundred years. */
export const authorityPem = `-----BEGIN CERTIFICATE-----
MIIBMDCB46ADAgECAhQA/80pyEREHtdTZSsReKZoTqJi9TAFBgMrZXAwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTI4MjAzMDIzWhgPMjEyNjExMDQyMDMwMjNaMA0xCzAJ
BgNVBAMMAmNhMCowBQYDK2VwAyEAVd458XjkbgyQpuerZfXrwbtZeFlgsEtqVb4i
5/vvceejUzBRMB0GA1UdDgQWBBRW26u+446HNQUeXdT91W/PNSygrTAfBgNVHSME
GDAWgBRW26u+446HNQUeXdT91W/PNSygrTAPBgNVHRMBAf8EBTADAQH/MAUGAytl
cANBANhdmicmyCAYz6BKwfqL4SG4t7eQkiLZLgN0W+KOi26dVzbFfgg7Y3p8vgc8
ZXibyi/5m/KnCcuHOVaI/J9ozQ8=
-----END CERTIFICATE-----
`;

/** A certificate of the authority for the key of `stubRequest`, valid for one day from `leafTimes`. */
export const leafPem = `-----BEGIN CERTIFICATE-----
MIHGMHoCFBI0QNtsYXWPMr7M6XznG6+iO6O5MAUGAytlcDANMQswCQYDVQQDDAJj
YTAeFw0yNjExMjgyMDMwMjNaFw0yNjExMjkyMDMwMjNaMAAwKjAFBgMrZXADIQBi
rnMrzxD+wlPlPnskPAvfzw7/YZ+l73p0X9fQGi6J6jAFBgMrZXADQQDt/eTZHqVb
/7KopRhA7ZjDX5u54ulG/4UbCI9KAKoC/Vy0vHpYLht5Sd2q3vKlAe+W9pA2+1xQ
OtB65fn7c9gM
-----END CERTIFICATE-----
`;
export const leafTimes = { notBefore: '2026-11-28T20:30:23Z', notAfter: '2026-11-29T20:30:23Z', beginRefreshAt: '2026-11-29T12:00:00Z' };

/** A PKCS #10 request in DER and base64, without a subject, as kubelets make it. */
export const stubRequest =
  'MH8wMwIBADAAMCowBQYDK2VwAyEAYq5zK88Q/sJT5T57JDwL388O/2Gfpe96dF/X0BouieqgADAFBgMrZXADQQBeOIYxGyrDgWURQE7Y4bJ/gVSCOEHICJy7VLM8GlPMRs2154paHXoQMhx9J7xGMq7PRGm2X4PbhYY+goBsMRQB';
