import type { Money } from "../api/types.ts";

/** "€12.50", "¥500", "KWD 1.250": how many decimals a currency has comes from the currency. */
export function formatMoney({ currencyCode, amountMinor = "0" }: Money): string {
  const format = new Intl.NumberFormat("en", { style: "currency", currency: currencyCode });
  const decimals = format.resolvedOptions().maximumFractionDigits ?? 2;
  return format.format(Number(amountMinor) / 10 ** decimals);
}

/** The sum of amounts of one currency; null of none. */
export function sum(amounts: readonly Money[]): Money | null {
  const first = amounts[0];
  if (!first) return null;
  const total = amounts.reduce((minor, amount) => minor + BigInt(amount.amountMinor ?? "0"), 0n);
  return { currencyCode: first.currencyCode, amountMinor: String(total) };
}

export function times({ currencyCode, amountMinor = "0" }: Money, count: number): Money {
  return { currencyCode, amountMinor: String(BigInt(amountMinor) * BigInt(count)) };
}

export function isZero(money: Money | undefined): boolean {
  return BigInt(money?.amountMinor ?? "0") === 0n;
}
