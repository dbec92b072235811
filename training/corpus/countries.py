"""The countries of the world: capital, continent and, where the table says one, currency and main language."""

from typing import NamedTuple


class Country(NamedTuple):
    name: str
    capital: str
    continent: str
    currency: str = ""
    language: str = ""


_TABLE = """
Afghanistan|Kabul|Asia|afghani|Dari
Albania|Tirana|Europe|lek|Albanian
Algeria|Algiers|Africa||Arabic
Andorra|Andorra la Vella|Europe
Angola|Luanda|Africa|kwanza|Portuguese
Argentina|Buenos Aires|South America|peso|Spanish
Armenia|Yerevan|Asia|dram|Armenian
Australia|Canberra|Oceania|dollar|English
Austria|Vienna|Europe|euro|German
Azerbaijan|Baku|Asia
Bahamas|Nassau|North America|dollar|English
Bahrain|Manama|Asia|dinar|Arabic
Bangladesh|Dhaka|Asia|taka|Bengali
Barbados|Bridgetown|North America
Belarus|Minsk|Europe
Belgium|Brussels|Europe|euro|Dutch
Belize|Belmopan|North America
Benin|Porto-Novo|Africa||French
Bhutan|Thimphu|Asia
Bosnia|Sarajevo|Europe
Botswana|Gaborone|Africa|pula
Brazil|Brasilia|South America|real|Portuguese
Brunei|Bandar Seri Begawan|Asia
Bulgaria|Sofia|Europe|lev|Bulgarian
Burkina Faso|Ouagadougou|Africa||French
Burundi|Gitega|Africa
Cambodia|Phnom Penh|Asia|riel|Khmer
Cameroon|Yaounde|Africa||French
Canada|Ottawa|North America|dollar|English
Cape Verde|Praia|Africa
Chad|N'Djamena|Africa
Chile|Santiago|South America|peso|Spanish
China|Beijing|Asia|yuan|Chinese
Colombia|Bogota|South America|peso|Spanish
Comoros|Moroni|Africa
Congo|Brazzaville|Africa||French
Costa Rica|San Jose|North America|colon|Spanish
Croatia|Zagreb|Europe|euro|Croatian
Cuba|Havana|North America|peso|Spanish
Cyprus|Nicosia|Europe|euro|Greek
Czechia|Prague|Europe|koruna|Czech
Denmark|Copenhagen|Europe|krone|Danish
Djibouti|Djibouti|Africa
Dominica|Roseau|North America
Ecuador|Quito|South America|dollar|Spanish
Egypt|Cairo|Africa|pound|Arabic
El Salvador|San Salvador|North America||Spanish
Eritrea|Asmara|Africa
Estonia|Tallinn|Europe|euro|Estonian
Eswatini|Mbabane|Africa
Ethiopia|Addis Ababa|Africa|birr|Amharic
Fiji|Suva|Oceania
Finland|Helsinki|Europe|euro|Finnish
France|Paris|Europe|euro|French
Gabon|Libreville|Africa||French
Gambia|Banjul|Africa
Georgia|Tbilisi|Asia|lari|Georgian
Germany|Berlin|Europe|euro|German
Ghana|Accra|Africa|cedi|English
Greece|Athens|Europe|euro|Greek
Grenada|Saint George's|North America
Guatemala|Guatemala City|North America|quetzal|Spanish
Guinea|Conakry|Africa||French
Guinea-Bissau|Bissau|Africa
Guyana|Georgetown|South America
Haiti|Port-au-Prince|North America||French
Honduras|Tegucigalpa|North America||Spanish
Hungary|Budapest|Europe|forint|Hungarian
Iceland|Reykjavik|Europe|krona|Icelandic
India|New Delhi|Asia|rupee|Hindi
Indonesia|Jakarta|Asia|rupiah|Indonesian
Iran|Tehran|Asia|rial|Persian
Iraq|Baghdad|Asia|dinar|Arabic
Ireland|Dublin|Europe|euro|English
Israel|Jerusalem|Asia|shekel|Hebrew
Italy|Rome|Europe|euro|Italian
Ivory Coast|Yamoussoukro|Africa
Jamaica|Kingston|North America|dollar|English
Japan|Tokyo|Asia|yen|Japanese
Jordan|Amman|Asia|dinar|Arabic
Kazakhstan|Astana|Asia|tenge
Kenya|Nairobi|Africa|shilling|Swahili
Kiribati|Tarawa|Oceania
Kosovo|Pristina|Europe
Kuwait|Kuwait City|Asia|dinar|Arabic
Kyrgyzstan|Bishkek|Asia
Laos|Vientiane|Asia|kip|Lao
Latvia|Riga|Europe|euro|Latvian
Lebanon|Beirut|Asia|pound|Arabic
Lesotho|Maseru|Africa
Liberia|Monrovia|Africa
Libya|Tripoli|Africa|dinar|Arabic
Liechtenstein|Vaduz|Europe
Lithuania|Vilnius|Europe|euro|Lithuanian
Luxembourg|Luxembourg|Europe
Madagascar|Antananarivo|Africa
Malawi|Lilongwe|Africa
Malaysia|Kuala Lumpur|Asia|ringgit|Malay
Maldives|Male|Asia
Mali|Bamako|Africa||French
Malta|Valletta|Europe|euro|Maltese
Mauritania|Nouakchott|Africa||Arabic
Mauritius|Port Louis|Africa
Mexico|Mexico City|North America|peso|Spanish
Micronesia|Palikir|Oceania
Moldova|Chisinau|Europe
Monaco|Monaco|Europe
Mongolia|Ulaanbaatar|Asia||Mongolian
Montenegro|Podgorica|Europe
Morocco|Rabat|Africa||Arabic
Mozambique|Maputo|Africa||Portuguese
Myanmar|Naypyidaw|Asia|kyat|Burmese
Namibia|Windhoek|Africa
Nauru|Yaren|Oceania
Nepal|Kathmandu|Asia|rupee|Nepali
Netherlands|Amsterdam|Europe|euro|Dutch
New Zealand|Wellington|Oceania|dollar|English
Nicaragua|Managua|North America||Spanish
Niger|Niamey|Africa||French
Nigeria|Abuja|Africa|naira|English
North Korea|Pyongyang|Asia|won|Korean
North Macedonia|Skopje|Europe
Norway|Oslo|Europe|krone|Norwegian
Oman|Muscat|Asia|rial|Arabic
Pakistan|Islamabad|Asia|rupee|Urdu
Palau|Ngerulmud|Oceania
Panama|Panama City|North America||Spanish
Papua New Guinea|Port Moresby|Oceania
Paraguay|Asuncion|South America||Spanish
Peru|Lima|South America|sol|Spanish
Philippines|Manila|Asia|peso|Filipino
Poland|Warsaw|Europe|zloty|Polish
Portugal|Lisbon|Europe|euro|Portuguese
Qatar|Doha|Asia||Arabic
Romania|Bucharest|Europe|leu|Romanian
Russia|Moscow|Europe|ruble|Russian
Rwanda|Kigali|Africa
Saint Lucia|Castries|North America
Samoa|Apia|Oceania
San Marino|San Marino|Europe
Saudi Arabia|Riyadh|Asia|riyal|Arabic
Senegal|Dakar|Africa||French
Serbia|Belgrade|Europe|dinar|Serbian
Seychelles|Victoria|Africa
Sierra Leone|Freetown|Africa||English
Singapore|Singapore|Asia
Slovakia|Bratislava|Europe|euro|Slovak
Slovenia|Ljubljana|Europe|euro|Slovene
Solomon Islands|Honiara|Oceania
Somalia|Mogadishu|Africa||Somali
South Africa|Pretoria|Africa|rand
South Korea|Seoul|Asia|won|Korean
South Sudan|Juba|Africa
Spain|Madrid|Europe|euro|Spanish
Sri Lanka|Colombo|Asia|rupee|Sinhala
Sudan|Khartoum|Africa|pound|Arabic
Suriname|Paramaribo|South America||Dutch
Sweden|Stockholm|Europe|krona|Swedish
Switzerland|Bern|Europe|franc|German
Syria|Damascus|Asia|pound|Arabic
Taiwan|Taipei|Asia||Chinese
Tajikistan|Dushanbe|Asia
Tanzania|Dodoma|Africa|shilling|Swahili
Thailand|Bangkok|Asia|baht|Thai
Togo|Lome|Africa||French
Tonga|Nuku'alofa|Oceania
Tunisia|Tunis|Africa|dinar|Arabic
Turkey|Ankara|Asia|lira|Turkish
Turkmenistan|Ashgabat|Asia
Tuvalu|Funafuti|Oceania
Uganda|Kampala|Africa|shilling|English
Ukraine|Kyiv|Europe|hryvnia|Ukrainian
United Kingdom|London|Europe|pound|English
United States|Washington|North America|dollar|English
Uruguay|Montevideo|South America|peso|Spanish
Uzbekistan|Tashkent|Asia
Vanuatu|Port Vila|Oceania
Venezuela|Caracas|South America||Spanish
Vietnam|Hanoi|Asia|dong|Vietnamese
Yemen|Sanaa|Asia||Arabic
Zambia|Lusaka|Africa||English
Zimbabwe|Harare|Africa||English
"""

COUNTRIES = tuple(Country(*line.split("|")) for line in _TABLE.strip().splitlines())
